// How much a call has worked, and how it ends for that.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cdec::grammars {

// Thrown where a call was long enough: it comes back, for signals, and goes on by what was noted.
struct Paused {};
// Thrown where a call was too long.
struct Stopped {};

class Work {
 public:
  Work(int64_t pause_at, int64_t stop_at) : pause_at_(pause_at), stop_at_(stop_at) {}

  void begin() { steps_ = 0, is_paused_ = false; }
  // Counts work that is not done again once it is noted.
  void spend(int64_t steps) { steps_ += steps; }
  bool is_due() const { return steps_ > pause_at_ || is_over(); }
  // To be asked where something was noted that the call may go on by.
  void pause() {
    stop();
    if (steps_ <= pause_at_) return;
    is_paused_ = true;
    throw Paused();
  }
  void stop() const {
    if (is_over()) throw Stopped();
  }
  bool is_paused() const { return is_paused_; }
  bool is_over() const { return steps_ > stop_at_; }

  // A lower limit for a part of a call.
  class Limit {
   public:
    Limit(Work &work, int64_t more) : work_(work), before_(work.stop_at_) {
      work.stop_at_ = std::min(before_, work.steps_ + std::min(more, before_ >> 3));
    }
    ~Limit() { work_.stop_at_ = before_; }
    Limit(const Limit &) = delete;

   private:
    Work &work_;
    const int64_t before_;
  };

  bool keeps = false;  // whether what a trial made is kept after all
  int64_t edges = 0;   // of the generalised parser's graphs, all calls together

 private:
  int64_t steps_ = 0, pause_at_, stop_at_;
  bool is_paused_ = false;
};

}  // namespace cdec::grammars
