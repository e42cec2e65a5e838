// Virtual time. All simulated clocks count picoseconds in 64 bits (106 days).
#pragma once
#include <cstdint>

namespace simgpu {

using Time = std::int64_t;

constexpr Time kNanosecond = 1'000;
constexpr double kPicosecondsPerMicrosecond = 1e6;

constexpr Time from_ns(double nanoseconds) { return static_cast<Time>(nanoseconds * 1e3); }
constexpr double to_us(Time t) { return static_cast<double>(t) / kPicosecondsPerMicrosecond; }

}  // namespace simgpu
