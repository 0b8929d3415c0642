// Levels of nesting and states of a text.
//
// A text's brackets and quotes can be seen, so at every level of nesting the engine holds the set
// of all alternatives that are still possible there: a visibly pushdown automaton (Alur and
// Madhusudan, STOC 2004), made deterministic by sets, one level at a time. A closing bracket or
// quote leaves the values of the alternatives that may end; the frame outside keeps those that
// await one of them.
#pragma once

#include <array>
#include <compare>

#include "memory.h"
#include "progress.h"
#include "values.h"

namespace cdec::schemas {

enum class Phase : int32_t {
  kRootValue,
  kRootDone,
  kObjectOpen,
  kObjectComma,
  kObjectColon,
  kObjectValue,
  kObjectNext,
  kArrayOpen,
  kArrayValue,
  kArrayNext,
  kKey,  // from here on, no white space stands between values
  kString,
  kRaw  // a number, true, false or null
};

inline bool awaits_value(Phase phase) {
  return phase == Phase::kRootValue || phase == Phase::kObjectValue || phase == Phase::kArrayValue;
}

// An alternative of a level. Of the whole text, value, part and place are 0.
struct Item {
  int32_t value = 0;
  int32_t part = 0;  // which object, array or string of the value; 0 of raw texts
  int32_t place =
      0;  // the progress of an object or array; a string's or raw text's automaton state
  int32_t content = 0;  // of keys the automaton's state; of strings characters so far, as far as
                        // they matter; where a value is awaited, it; else 0
  // Of strings whose tokens count: twice their number so far, plus 1 where the token at hand is
  // counted; or kUncounted.
  int32_t tokens = 0;

  auto operator<=>(const Item&) const = default;
};

inline int64_t hash_of(const Item& item) {
  return mixed(pack(item.value, item.part)) ^ pack(item.place, item.content) ^ mixed(item.tokens);
}

constexpr int32_t kUncounted = -1;

// Of what stands in a frame no value is remembered; nor of all that comes behind it, as if nothing
// had to differ.
constexpr int32_t kNone = -1, kRelaxed = -2;

// An interned list of items, ascending and distinct, behind one that holds phase, parent, text and
// value.
struct Frame {
  Phase phase;
  int32_t parent;  // the frame of the level outside, -1 for none
  int32_t text;    // what was spelled of a key, string or raw text that is remembered, or kNone
  int32_t value;   // of `Values`: what stands in an object or array that is remembered; or kNone,
                   // kRelaxed
  std::span<const Item> items;  // subtle: valid until a frame is made

  bool is_relaxed() const { return value == kRelaxed; }
};

inline bool is_in_array(Phase phase) {
  return phase == Phase::kArrayOpen || phase == Phase::kArrayValue || phase == Phase::kArrayNext;
}
inline bool is_in_object(Phase phase) {
  return phase == Phase::kKey || (Phase::kObjectOpen <= phase && phase <= Phase::kObjectNext);
}

// Whether blanks are the program's automaton's, or how lines are laid out (layout.h): nothing is
// written that tells; COMPACT or SPACED (one blank behind colons and commas); lines indented by two
// blanks (or the program's columns), four blanks, a tab.
enum class Style : int32_t { kUndecided, kOneLine, kCompact, kSpaced, kByTwo, kByFour, kByTab };

// How far an escape is spelled.
struct Escape {
  enum Kind : int32_t { kNone, kBegun, kUnit, kHigh, kHighBegun, kLow };
  Kind kind = kNone;
  int32_t surrogate = 0;  // the ten bits of a high one
  int32_t digits = 0;     // that were read of a unit
  int32_t value = 0;      // of these
};

// What a state is besides its frame: within strings a style and an escape; between them a style and
// how far blanks are written, or a state of the blanks' automaton.
class LexicalState {
 public:
  constexpr explicit LexicalState(int32_t bits = 0) : bits_(bits) {}
  LexicalState(Style style, Escape escape)
      : bits_(escape.kind << 28 | static_cast<int32_t>(style) << 24 | escape.surrogate << 14 |
              escape.digits << 12 | escape.value) {}
  LexicalState(Style style, int32_t written) : bits_(static_cast<int32_t>(style) << 24 | written) {}

  int32_t bits() const { return bits_; }
  int32_t blanks() const { return bits_; }
  Style style() const { return static_cast<Style>(bits_ >> 24 & 7); }
  int32_t written() const { return bits_ & 0xFFFFFF; }
  bool is_escape() const { return bits_ >> 28; }
  Escape escape() const {
    return {static_cast<Escape::Kind>(bits_ >> 28), bits_ >> 14 & 0x3FF, bits_ >> 12 & 3,
            bits_ & 0xFFF};
  }

 private:
  int32_t bits_;
};

// Whether a text can go on to an end where some values must differ: not known, or it cannot, or it
// can, if not on all ways; or whatever stands open differs from all that it has to differ from.
enum class Lead : int8_t { kUnknown, kNowhere, kOn, kFree };

struct State {
  int32_t frame;
  LexicalState lexical;
  int32_t mask = -1, epoch = -1;  // of the masks; no mask where the epoch is past
  std::array<int32_t, 8> blocks{-1, -1, -1, -1, -1, -1, -1, -1};  // of steps, by 32 bytes
  std::array<uint64_t, 4> may_come{};  // nearly the bytes that may come; 0 where not known
  bool may_end = false;                // whether the text may end here
  Lead lead = Lead::kUnknown;
};

// The frames and states that there are, with what they stand on.
class Frames {
 public:
  Frames(const Program& program, Work& work, CountedMemory& memory, int64_t most)
      : p(program),
        work_(work),
        memory_(memory),
        progresses(program, work, &memory),
        values(&memory),
        most_(most),
        frames_(&memory),
        states_(&memory),
        index_(&memory) {}

  int64_t size() const { return static_cast<int64_t>(states_.size()); }
  int64_t frame_count() const { return frames_.size(); }
  bool holds(int64_t state) const { return 0 <= state && state < size(); }
  // subtle: valid until a state is made.
  State& operator[](int32_t state) { return states_[state]; }
  const State& operator[](int32_t state) const { return states_[state]; }
  Frame frame(int32_t number) const {
    const auto items = frames_[number];
    return {static_cast<Phase>(items[0].value), items[0].part, items[0].place, items[0].content,
            items.subspan(1)};
  }
  std::span<const Item> rows(int32_t frame) const { return frames_[frame]; }

  // A frame is begun, filled in any order, and ended, which gives its number, -1 without items. One
  // is built at a time; those that are there may be read meanwhile.
  void begin_frame(Phase phase, int32_t parent, int32_t text, int32_t value) {
    built_.assign(1, {static_cast<int32_t>(phase), parent, text, value});
  }
  void add(const Item& item) { built_.push_back(item); }
  int32_t end_frame() {
    if (built_.size() == 1) return -1;
    std::sort(built_.begin() + 1, built_.end());
    built_.erase(std::unique(built_.begin() + 1, built_.end()), built_.end());
    return static_cast<int32_t>(frames_.intern(built_));
  }

  // The state of a frame, -1 for none.
  int32_t state_of(int32_t frame, LexicalState lexical) {
    if (frame < 0) return -1;
    const int64_t key = pack(frame, lexical.bits()), known = index_.find(key);
    if (known != Table::kAbsent) return static_cast<int32_t>(known);
    if (memory_.bytes() > most_) throw StatesFull{};
    states_.push_back({frame, lexical});
    states_.back().may_end = frame_may_end(frame, lexical);
    index_.set(key, size() - 1);
    return static_cast<int32_t>(size() - 1);
  }

  const Program& p;

  bool item_may_end(Phase phase, const Item& item) const {
    if (phase == Phase::kRaw) return p.state_label[item.place] >= 0;
    if (phase == Phase::kString)
      return item.content >= p.string_min[item.part] && p.is_string(item.place);
    if (phase == Phase::kObjectOpen || phase == Phase::kObjectNext)
      return progresses.object_may_end(item.part, item.place);
    return progresses.array_may_end(item.part, item.place);
  }

 protected:
  Work& work_;
  CountedMemory& memory_;

 public:
  Progresses progresses;
  Values values;

 private:
  bool frame_may_end(int32_t number, LexicalState lexical) const {
    const Frame at = frame(number);
    if (at.phase == Phase::kRootDone) return p.layout || p.state_label[lexical.blanks()] >= 0;
    if (at.phase != Phase::kRaw || frame(at.parent).phase != Phase::kRootValue) return false;
    return std::ranges::any_of(at.items,
                               [&](const Item& item) { return item_may_end(at.phase, item); });
  }

  const int64_t most_;
  Lists<Item> frames_;
  std::pmr::vector<State> states_;
  Table index_;              // of states by frame and lexical state
  std::vector<Item> built_;  // the frame that is made
};

}  // namespace cdec::schemas
