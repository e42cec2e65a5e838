
// Appended to the C ABI of an edited tree's simulator, as faults_abi.cu is to that of GPUs; `rank`: the one that is late, -1: every one.
extern "C" {

void afdep_sim_faults_set(const uint32_t* late_us, int32_t rank) {
  prim::faults = {};
  for (int place = 0; place < prim::kPlaces; ++place) prim::faults.late_us[place] = late_us[place];
  prim::faults.rank = rank;
}
const uint32_t* afdep_sim_faults_told(void) { return prim::faults.told; }

}  // extern "C"
