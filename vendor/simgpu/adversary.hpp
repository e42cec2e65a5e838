// Hunt mode's opponent: a seeded source of delays. Everything it draws comes from the seed, so a seed replays exactly.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "clock.hpp"
#include "races.hpp"

namespace simgpu {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 1) {
    for (int i = 0; i < 8; ++i) next();
  }
  SIMGPU_UNSEEN std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ * 0x2545F4914F6CDD1Dull;
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

class Adversary {
 public:
  Adversary(bool active, std::uint64_t seed, int num_ranks) : active_(active), random_(seed) {
    if (!active) return;
    static constexpr double kStallProbability[] = {0, 2e-4, 2e-3, 1e-2};
    static constexpr double kStallUs[] = {20, 60, 300};
    static constexpr double kPairDelayNs[] = {0, 0, 0, 1000, 5000, 20000};
    stall_probability_ = kStallProbability[random_.next() % 4];
    stall_us_ = kStallUs[random_.next() % 3];
    slow_rank_ = random_.next() % 2 == 0 ? static_cast<int>(random_.next() % static_cast<std::uint64_t>(num_ranks)) : -1;
    starved_kernel_ = random_.next() % 2 == 0 ? static_cast<int>(random_.next() % kKernelKinds) : -1;
    for (int pair = 0; pair < num_ranks * num_ranks; ++pair)
      pair_delay_.push_back(from_ns(kPairDelayNs[random_.next() % 6] * random_.uniform()));
    stalling_host_ = random_.next() % 4 == 0 ? static_cast<int>(random_.next() % static_cast<std::uint64_t>(num_ranks)) : -1;
    num_ranks_ = num_ranks;
  }

  bool active() const { return active_; }
  // Orders events that are due at the same time.
  std::uint64_t tie_break() { return random_.next(); }

  // A delay of up to `ns`, mostly short, one time in sixteen up to eight times as long.
  Time delay(double ns) {
    if (!active_) return 0;
    double u = random_.uniform() * random_.uniform();
    if (random_.next() % 16 == 0) u *= 8;
    return from_ns(u * ns);
  }
  Time link_delay(int from, int to) {
    return active_ ? pair_delay_[static_cast<std::size_t>(from * num_ranks_ + to)] + delay(kLinkNs) : 0;
  }
  // How late a launch reaches its rank: a little, and where the rank's host stalls, half of the launches by up to 300 us more.
  Time launch_delay(int rank) {
    const Time usual = delay(kLaunchNs);
    return rank == stalling_host_ && random_.next() % 2 == 0 ? usual + from_ns(kHostStallNs * random_.uniform()) : usual;
  }
  // Added wherever a fiber may yield: a little jitter, rare stalls of up to 300 us, and one rank that is slow throughout or in
  // one of its kernels, which then crawls as if it got no SM time.
  Time step(int rank, const char* kernel) {
    if (!active_) return 0;
    Time t = delay(kStepNs);
    if (stall_probability_ > 0 && random_.uniform() < stall_probability_)
      t += static_cast<Time>(std::exp(random_.uniform() * std::log(stall_us_)) * kPicosecondsPerMicrosecond);
    if (rank == slow_rank_) t += starved_kernel_ < 0 ? delay(kSlowRankNs) : kind(kernel) == starved_kernel_ ? delay(kStarvedNs) : 0;
    return t;
  }

 private:
  static constexpr double kLinkNs = 4000, kStepNs = 60, kSlowRankNs = 1500, kStarvedNs = 60'000;
  static constexpr double kLaunchNs = 3000, kHostStallNs = 300'000;
  static constexpr std::uint64_t kKernelKinds = 6;
  static int kind(const char* kernel) {
    std::uint64_t sum = 0;
    for (; *kernel != 0; ++kernel) sum = sum * 31 + static_cast<unsigned char>(*kernel);
    return static_cast<int>(sum % kKernelKinds);
  }
  bool active_;
  Random random_;
  double stall_probability_ = 0, stall_us_ = 0;
  int slow_rank_ = -1, starved_kernel_ = -1, stalling_host_ = -1;
  int num_ranks_ = 0;
  std::vector<Time> pair_delay_;
};

}  // namespace simgpu
