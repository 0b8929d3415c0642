// The states of what a tokenizer writes: steps and masks, as far as no text has to be looked at.
//
// A state is a context and the last token. Contexts that are plain, where no character, no added
// token's text and no whole pre-token is begun, are sets of places (core/spelling/splits.py) with
// what may yet be composed; what follows them is found here. Of all others steps and masks are told.
#pragma once

#include <mutex>
#include <span>

#include "follows.h"
#include "lists.h"

namespace cdec::canonical {

// What has to be told before a call can go on, and of what: `state` is a tail for kTail, and a state
// of the session within for the last two.
enum Need : int64_t { kNothing = -1, kMask, kStep, kTail, kInnerMask, kInnerStep };
struct Needed {
  int64_t what = kNothing, state = 0, token = 0;
};
constexpr int64_t kUntold = INT64_MIN + 1;  // as a state behind a step

class Spelled {
 public:
  explicit Spelled(const cdec_spelling &spelling);

  int64_t plain(std::span<const int32_t> places, int64_t tail);
  int64_t told(bool may_end);
  int64_t number(int64_t context, int64_t token);
  int64_t size() const { return static_cast<int64_t>(states_.size()); }
  bool holds(int64_t state) const { return 0 <= state && state < size(); }
  bool has_context(int64_t context) const {
    return 0 <= context && context < static_cast<int64_t>(contexts_.size());
  }
  bool are_places(std::span<const int32_t> places) const {
    return std::ranges::all_of(places, [&](int32_t p) { return -1 <= p && p < s_.may_end.size; });
  }
  int64_t read(int64_t state, cdec_i64_out out) const;
  void tell_step(int64_t state, int64_t token, int64_t after);
  bool tell_mask(int64_t state, cdec_i32 mask);
  bool tell_tail(int64_t tail, cdec_i32 kept, cdec_i32 breaks);

  bool may_end(int64_t state) const { return contexts_[states_[state].context].may_end; }
  bool has_ends() const { return s_.end_ids.size > 0; }
  // The state behind a token, CDEC_DEAD, CDEC_DONE or kUntold.
  int64_t step(int64_t state, int64_t token, Needed &needed);
  // Ands a mask with that of a state; false where something has to be told.
  bool narrow(int64_t state, int32_t *mask, Needed &needed);
  // Whether more than so many tokens of a mask may follow a state, whatever its last token is; false
  // where that is not known.
  bool allows_across(int64_t state, const int32_t *mask, int64_t most);
  int64_t words() const { return s_.words; }
  int64_t bytes() const;

  std::mutex mutex;

 private:
  static constexpr int64_t kMostSteps = 1 << 20, kToldMasks = 256;
  static constexpr int64_t kPlaceBytes = int64_t{64} << 20;
  enum Kind : uint8_t { kNever, kSimple, kTold };  // of tokens, behind a plain context
  struct Context {
    int64_t places, tail;  // -1, -1: told
    bool may_end;
  };
  struct State {
    int32_t context, token;
  };

  int64_t land(int64_t places, int32_t shape, bool follows);
  void land_by(const int32_t *first, int32_t shape, std::vector<int32_t> &found) const;
  template <class Visit>
  void each_first(int32_t place, bool across, Visit &&visit);
  const int32_t *place_row(int32_t place, bool across);
  bool goes_on(const int32_t *classes, int32_t tail) const;
  bool lives(const int32_t *first, int64_t shape) const;

  const cdec_spelling s_;
  const int64_t classes_;
  Follows follows_;
  Lists<int32_t> sets_{std::pmr::get_default_resource()};  // of places
  std::vector<Context> contexts_;
  std::vector<State> states_;
  Table context_of_{std::pmr::get_default_resource()};  // set and tail -> context
  Table state_of_{std::pmr::get_default_resource()};    // context and token -> state
  Table landings_{std::pmr::get_default_resource()};    // set, shape, whether it follows -> set
  Table steps_{std::pmr::get_default_resource()};       // state and token -> state, as told
  KeptMasks told_masks_, tails_, place_rows_;
  std::vector<int32_t> first_, landed_, row_;
  std::vector<uint8_t> lives_;
};

}  // namespace cdec::canonical

struct cdec_spelled : cdec::canonical::Spelled {
  using Spelled::Spelled;
};
