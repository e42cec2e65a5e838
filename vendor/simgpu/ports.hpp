// Shared resources of a rank's GPU as first-come first-served pipes: link ports, L2, HBM, and the paths of each SM.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "clock.hpp"
#include "machine.hpp"
#include "races.hpp"

namespace simgpu {

// A pipe that serves one request at a time at a fixed rate.
class Pipe {
 public:
  // Occupies the pipe for `bytes` at `gb_per_s` (bytes per nanosecond) from `t` or when it is free; returns the end.
  SIMGPU_UNSEEN Time use(Time t, double bytes, double gb_per_s) { return busy_until_ = std::max(busy_until_, t) + from_ns(bytes / gb_per_s); }
  SIMGPU_UNSEEN Time hold(Time t, double ns) { return busy_until_ = std::max(busy_until_, t) + from_ns(ns); }
  Time busy_until() const { return busy_until_; }

 private:
  Time busy_until_ = 0;
};

// How much of a rank's memory L2 still holds: each 4 KiB granule remembers the reading of a counter of granules brought in since.
// It is whole until the counter ran on by half the capacity and gone after three halves, with a straight line between: sets fill
// unevenly. Granules seen again while young do not advance the counter.
class L2Residency {
 public:
  explicit L2Residency(double l2_bytes) : capacity_(static_cast<std::uint32_t>(l2_bytes / kGranule)) {}

  // Marks [offset, offset + bytes) as used now; returns how many of the bytes were not resident.
  SIMGPU_UNSEEN double touch(std::size_t offset, std::size_t bytes) {
    if (bytes == 0) return 0;
    const std::size_t first = offset / kGranule, last = (offset + bytes - 1) / kGranule;
    if (last >= stamp_.size()) stamp_.resize(last + last / 2 + 1, 0);
    double missing = 0;
    for (std::size_t granule = first; granule <= last; ++granule) missing += touch_granule(granule);
    return static_cast<double>(bytes) * missing / static_cast<double>(last - first + 1);
  }

 private:
  static constexpr std::size_t kGranule = 4096;
  // The share of the granule that was gone.
  SIMGPU_UNSEEN double touch_granule(std::size_t granule) {
    std::uint32_t& stamp = stamp_[granule];
    const std::uint32_t age = counter_ - stamp;
    if (stamp != 0 && age <= capacity_ / 16) return 0;
    const double halves = 2.0 * age / capacity_;
    const double missing = stamp == 0 ? 1 : std::clamp((halves - 1) / 2, 0.0, 1.0);
    stamp = ++counter_;
    return missing;
  }

  std::uint32_t capacity_, counter_ = 1;
  std::vector<std::uint32_t> stamp_;
};

struct Sm {
  Pipe load, bulk;
  int threads = 0;
  double shared_bytes = 0;
};

struct Gpu {
  Gpu(const Machine& m) : l2_residency(m.l2_bytes), sms(static_cast<std::size_t>(m.sm_count)) {}
  Pipe link_out, link_in, l2, hbm;
  L2Residency l2_residency;
  std::vector<Sm> sms;
};

}  // namespace simgpu
