// Rank 1 sends to rank 0 (or itself) through the NIC. Usage: nic_cases CASE SEEDS; the cases are listed in main(). Prints how many of the
// hunted schedules ended right, wrong or stuck, and on what the first stuck one waits; without seeds, the microseconds in time order.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "../../vendor/elastic/prim_nic.cuh"
#include "toy_machine.hpp"

namespace {

constexpr int kWords = 32, kBytes = 8 * kWords, kAdds = 40, kMessages = 64;
constexpr double kQueueMessageNs = 400, kMessageNs = 100;
constexpr std::uint64_t kSent = 7, kReused = 9;

simgpu::NicMachine nic_machine() {
  simgpu::NicMachine m;
#define SIMGPU_ANY(name) m.name = 100;
  SIMGPU_NIC_CONSTANTS(SIMGPU_ANY)
#undef SIMGPU_ANY
  m.post_ns = 10;
  m.atomic_ns = 50;
  m.latency_ns = 1000;
  m.queue_message_ns = kQueueMessageNs;
  m.message_ns = kMessageNs;
  m.queue_pairs = 8;
  m.queue_entries = 4;
  return m;
}

struct Case {
  int receiver = 0;
  std::uint64_t* inbox = nullptr;    // [kWords] of the receiver
  std::uint64_t* flag = nullptr;     // [2] of the receiver
  std::uint64_t* staging = nullptr;  // [kWords] of rank 1
  std::uint64_t* abort_word[2] = {};
  bool right = false;
  prim::Guard guard() const { return {abort_word[prim::own_rank()]}; }
  prim::NicQueue queue(int pair) const { return {receiver, pair}; }
  prim::Remote<char> target() const { return prim::Remote<char>(reinterpret_cast<char*>(inbox)); }
  prim::Remote<std::uint64_t> signal(int i = 0) const { return prim::Remote<std::uint64_t>(flag + i); }
};
using Sender = void (*)(const Case&);

void stage(const Case& c, std::uint64_t v) {
  for (int i = 0; i < kWords; ++i) prim::store(c.staging + i, v);
}
void put(const Case& c, int pair) { prim::nic_put(c.guard(), c.queue(pair), c.target(), c.staging, kBytes); }
void put_then_flag(const Case& c, int flag_pair) {
  stage(c, kSent);
  prim::fence_sys();
  put(c, 0);
  prim::nic_put_value(c.guard(), c.queue(flag_pair), c.signal(), std::uint64_t{1});
  prim::nic_ring(c.queue(0));
  if (flag_pair != 0) prim::nic_ring(c.queue(flag_pair));
}
void flag_behind(const Case& c) { put_then_flag(c, 0); }
void flag_on_another_pair(const Case& c) { put_then_flag(c, 1); }
void put_signal_of_staged(const Case& c) {
  prim::nic_put_signal(c.guard(), c.queue(0), c.target(), c.staging, kBytes, c.signal(), 1);
  prim::nic_ring(c.queue(0));
}
void put_signal(const Case& c) {
  stage(c, kSent);
  prim::fence_sys();
  put_signal_of_staged(c);
}
void signal_on_another_pair(const Case& c) {
  stage(c, kSent);
  prim::fence_sys();
  put(c, 0);
  prim::nic_add(c.guard(), c.queue(1), c.signal(), 1);
  prim::nic_ring(c.queue(0));
  prim::nic_ring(c.queue(1));
}
void no_doorbell(const Case& c) {
  stage(c, kSent);
  prim::fence_sys();
  prim::nic_put_signal(c.guard(), c.queue(0), c.target(), c.staging, kBytes, c.signal(), 1);
}
void no_fence(const Case& c) {
  stage(c, kSent);
  put_signal_of_staged(c);
}
void reuse_after_flush(const Case& c) {
  put_signal(c);
  if (prim::nic_flush(c.guard(), c.queue(0))) stage(c, kReused);
}
void reuse_without_flush(const Case& c) {
  put_signal(c);
  stage(c, kReused);
}
void flush_without_doorbell(const Case& c) {
  no_doorbell(c);
  prim::nic_flush(c.guard(), c.queue(0));
}
// Says over NVLink that the bytes are there, when all it knows is that they have left.
void flush_taken_for_landed(const Case& c) {
  stage(c, kSent);
  prim::fence_sys();
  put(c, 0);
  prim::nic_ring(c.queue(0));
  prim::nic_flush(c.guard(), c.queue(0));
  prim::store_release_sys(c.signal(), std::uint64_t{1});
}
void post(const Case& c, int entries, bool ring) {
  put_signal(c);
  prim::nic_flush(c.guard(), c.queue(0));
  for (int i = 0; i < entries; ++i) {
    prim::nic_add(c.guard(), c.queue(0), c.signal(1), 1);
    if (ring) prim::nic_ring(c.queue(0));
  }
}
void a_full_queue(const Case& c) { post(c, 4, false); }
void one_more_than_a_queue_holds(const Case& c) { post(c, 5, false); }
void many_with_doorbells(const Case& c) { post(c, 20, true); }

void send_messages(const Case& c, int pairs) {
  stage(c, kSent);
  prim::fence_sys();
  for (int i = 0; i < kMessages; ++i) {
    prim::nic_add(c.guard(), c.queue(i % pairs), c.signal(1), 1);
    prim::nic_ring(c.queue(i % pairs));
  }
  put_signal_of_staged(c);
  for (int pair = 0; pair < pairs; ++pair) prim::nic_flush(c.guard(), c.queue(pair));
}
template <int kPairs>
void messages_over(const Case& c) {
  send_messages(c, kPairs);
}

void receive(Case& c) {
  if (!prim::wait_until(c.guard(), c.flag, [](std::uint64_t v) { return v >= 1; }, {"the flag", 1, 1})) return;
  c.right = true;
  for (int i = 0; i < kWords; ++i) c.right &= prim::load(c.inbox + i) == kSent;
}

// Both ranks add to one word of rank 0, or to a word each: rank 1 through its NIC, rank 0 by `own`.
struct Adders {
  bool own_nic, one_word;
};
void add_from(const Case& c, int word, bool nic) {
  for (int i = 0; i < kAdds; ++i) {
    if (!nic) {
      prim::fetch_add_gpu(c.flag + word, std::uint64_t{1});
      continue;
    }
    prim::nic_add(c.guard(), c.queue(0), c.signal(word), 1);
    prim::nic_ring(c.queue(0));
  }
}

// What the blocked fibers wait for, each once.
std::string waits(const simgpu::Engine& engine) {
  std::set<std::string> names;
  for (const auto& blocked : engine.blocked()) names.insert(blocked.wait);
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

class Run {
 public:
  Run(const simgpu::Options& options, int receiver) : engine_(2, toy_machine(2), options), nics_(engine_, nic_machine()) {
    case_.receiver = receiver;
    case_.inbox = take(receiver, kBytes);
    case_.flag = take(receiver, 16);
    case_.staging = take(1, kBytes);
    for (int rank = 0; rank < 2; ++rank) case_.abort_word[rank] = take(rank, 8);
  }
  void launch(int rank, std::function<void()> body) {
    simgpu::Launch launch;
    launch.name = rank == 1 ? "send" : "receive";
    launch.body = [body = std::move(body)] { prim::elect(body); };
    engine_.enqueue(engine_.make_stream(rank), std::move(launch));
  }
  std::string outcome() {
    if (!engine_.run()) return engine_.fault().empty() ? "stuck: " + waits(engine_) : engine_.fault();
    return case_.right ? "right" : "wrong";
  }
  std::string exchange(Sender send) {
    launch(1, [this, send] { send(case_); });
    launch(case_.receiver, [this] { receive(case_); });
    return outcome();
  }
  std::string additions(Adders adders) {
    const int second = adders.one_word ? 0 : 1;
    launch(1, [this] { add_from(case_, 0, true); });
    launch(0, [=, this] { add_from(case_, second, adders.own_nic); });
    const std::string ended = outcome();
    return ended != "wrong" ? ended : case_.flag[0] + case_.flag[1] == 2 * kAdds ? "right" : "wrong";
  }
  double microseconds() const { return simgpu::to_us(engine_.now()); }

 private:
  std::uint64_t* take(int rank, std::size_t bytes) { return reinterpret_cast<std::uint64_t*>(engine_.memory().allocate(rank, bytes)); }
  simgpu::Engine engine_;
  simgpu::Nics nics_;
  Case case_;
};

const std::map<std::string, Sender> kSenders{
    {"flag-behind", flag_behind}, {"flag-on-another-pair", flag_on_another_pair}, {"signal", put_signal},
    {"signal-on-another-pair", signal_on_another_pair}, {"no-doorbell", no_doorbell}, {"no-fence", no_fence},
    {"reuse-after-flush", reuse_after_flush}, {"reuse-without-flush", reuse_without_flush},
    {"flush-without-doorbell", flush_without_doorbell}, {"flush-taken-for-landed", flush_taken_for_landed},
    {"full-queue", a_full_queue}, {"overfull-queue", one_more_than_a_queue_holds}, {"many-with-doorbells", many_with_doorbells},
    {"messages-over-1", messages_over<1>}, {"messages-over-2", messages_over<2>}, {"messages-over-8", messages_over<8>}};
const std::map<std::string, Adders> kAdders{
    {"two-nics-one-word", {true, true}}, {"nic-and-sm-one-word", {false, true}}, {"nic-and-sm-a-word-each", {false, false}}};

std::string run(Run& run, const std::string& name) {
  const auto adders = kAdders.find(name);
  return adders != kAdders.end() ? run.additions(adders->second) : run.exchange(kSenders.at(name));
}

}  // namespace

int main(int argc, char** argv) {
  std::string name = argc > 1 ? argv[1] : "";
  const bool self = name.starts_with("self-");
  if (self) name = name.substr(5);
  if (!kSenders.contains(name) && !kAdders.contains(name)) return 4;
  if (argc < 3) {
    Run once({}, self ? 1 : 0);
    const std::string outcome = run(once, name);
    std::printf("%s %.2f\n", outcome.c_str(), once.microseconds());
    return 0;
  }
  std::map<std::string, int> outcomes;
  for (int seed = 1; seed <= std::atoi(argv[2]); ++seed) {
    Run hunted({true, true, static_cast<std::uint64_t>(seed)}, self ? 1 : 0);
    ++outcomes[run(hunted, name)];
  }
  for (const auto& [outcome, count] : outcomes) std::printf("%s\n", outcome.c_str());
  return 0;
}
