// The work of a call, which comes back for signals and other threads when it has computed for long.
#pragma once

#include <cstdint>

namespace cdec::schemas {

struct Paused {};      // thrown once something new is remembered, so that the next call gets further
struct StatesFull {};  // states and steps have passed their bound

struct Work {
  static constexpr int64_t kMost = 4'000'000;  // about a tenth of a second
  int64_t spent = 0;  // alternatives, slots and edges that were looked at, and rows
  bool is_over() const { return spent >= kMost; }
};

}  // namespace cdec::schemas
