// States of texts, and the steps between them by bytes: each is thought about once, and remembered.
#pragma once

#include "frames.h"
#include "memory.h"
#include "progress.h"

namespace cdec::schemas {

class States {
 public:
  States(const Program &program, Work &work, CountedMemory &memory, int64_t most)
      : p(program), work_(work), memory_(memory), most_(most), progresses(program, work, &memory),
        texts(&memory), frames_(&memory), states_(&memory), index_(&memory), steps_(&memory) {}

  int32_t start();
  // The state after a byte, -1 for none. O(1) if done before.
  int32_t step(int32_t state, int32_t byte) {
    const int32_t block = states_[state].blocks[byte >> 5];
    const int32_t known = block < 0 ? kUnknown : steps_[block][byte & 31];
    return known == kUnknown ? compute_step(state, byte) : known;
  }
  // The state after a token's bytes, -1 where it is not allowed, or has none.
  int32_t step_token(int32_t state, int64_t token);
  // Whether a byte may come: false is sure, true is not. O(1) if asked before.
  bool may_come(int32_t state, int32_t byte) {
    const auto &known = states_[state].may_come;
    if (!(known[0] | known[1] | known[2] | known[3])) find_bytes(state);
    return states_[state].may_come[byte >> 6] >> (byte & 63) & 1;
  }

  int64_t size() const { return static_cast<int64_t>(states_.size()); }
  int64_t frame_count() const { return frames_.size(); }
  bool holds(int64_t state) const { return 0 <= state && state < size(); }
  // subtle: valid until a state is made.
  State &operator[](int32_t state) { return states_[state]; }
  Frame frame(int32_t number) const {
    const auto items = frames_[number];
    return {static_cast<Phase>(items[0].value), items[0].part, items[0].place, items.subspan(1)};
  }
  std::span<const Item> rows(int32_t frame) const { return frames_[frame]; }

  // A frame is begun, filled in any order, and ended, which gives its number, -1 without items. One is
  // built at a time; those that are there may be read meanwhile.
  void begin_frame(Phase phase, int32_t parent, int32_t text = -1) {
    built_.assign(1, {static_cast<int32_t>(phase), parent, text, 0});
  }
  void add(const Item &item) { built_.push_back(item); }
  int32_t end_frame();
  // The state of a frame, -1 for none.
  int32_t state_of(int32_t frame, Mark mark);

  const Program &p;

 private:
  static constexpr int32_t kUnknown = -3;
  using Block = std::array<int32_t, 32>;

  int32_t compute_step(int32_t state, int32_t byte);
  int32_t found_step(int32_t frame, Mark mark, int32_t byte);
  int32_t structural(int32_t frame, int32_t byte, Style style);
  int32_t value_begin(int32_t frame, int32_t byte, Style style);
  void add_alternatives(Phase phase, int32_t value, int32_t byte);
  int32_t raw_byte(int32_t frame, int32_t byte);
  int32_t raw_state(int32_t frame, Style style);
  int32_t in_phase(int32_t frame, Phase phase);
  bool frame_may_end(int32_t frame, Mark mark) const;
  void find_bytes(int32_t state);
  void find_values(const Frame &frame, std::array<uint64_t, 4> &bytes) const;
  bool add_edges(int32_t place, std::array<uint64_t, 4> &bytes) const;

  // Members: what is awaited of the next key or element, by every alternative (members.cc).
  int32_t keys_of(int32_t frame, Phase phase);
  int32_t key_end(int32_t frame);
  int32_t elements_of(int32_t frame);
  int32_t closed(int32_t frame);
  bool item_may_end(Phase phase, const Item &item) const;

  // Blanks where the layout is json.dumps's (layout.cc).
  Mark between(Style style) const { return p.layout ? Mark(style, 0) : Mark(p.blank); }
  int32_t laid_out(int32_t frame, Mark mark, int32_t byte);
  Mark mark_after_blank(int32_t frame, Mark mark, int32_t byte);
  bool line_may_break(int32_t frame, Phase phase);
  int32_t indentation(int32_t frame, Style style) const;

  // Strings and keys (strings.cc).
  int32_t content_byte(int32_t frame, Mark mark, int32_t byte);
  int32_t escape_digit(int32_t frame, Style style, Escape escape, int32_t byte);
  int32_t fed(int32_t frame, std::span<const uint8_t> bytes);
  int32_t fed_character(int32_t frame, int32_t code);
  int64_t counted(int32_t string, int32_t state, int64_t count) const;
  bool takes(int32_t frame, int32_t low, int32_t high);
  bool takes_unit(int32_t frame, int32_t low, int32_t high);
  bool takes_escape(int32_t frame);
  bool spells(Phase phase, const Item &item, std::span<const uint8_t> low,
              std::span<const uint8_t> high);

  Work &work_;
  CountedMemory &memory_;
  const int64_t most_;

 public:
  Progresses progresses;
  Texts texts;

 private:
  Lists<Item> frames_;
  std::pmr::vector<State> states_;
  Table index_;  // of states by frame and mark
  std::pmr::vector<Block> steps_;
  std::vector<Item> built_;      // the frame that is made
  std::vector<int32_t> ended_;   // values that a level may be closed as
};

}  // namespace cdec::schemas
