// States of texts, and the steps between them by bytes: each is thought about once, and remembered.
// Whether what stands open can differ from what it has to differ from is not looked at (differing.h).
#pragma once

#include "contents.h"

namespace cdec::schemas {

class Steps : public Strings {
 public:
  Steps(const Program& program, Work& work, CountedMemory& memory, int64_t most)
      : Strings(program, work, memory, most), steps_(&memory) {}

  int32_t start() {
    const bool is_fixed = 0 < p.layout && p.layout <= kMostIndent;
    begin_frame(Phase::kRootValue, -1, kNone, kNone);
    add({});
    return state_of(end_frame(), between(is_fixed ? Style::kByTwo : Style::kUndecided));
  }

  // The state after a byte, -1 for none; of values that must differ one may be left or none. O(1) if
  // done before.
  int32_t nearly_step(int32_t state, int32_t byte) {
    const int32_t block = (*this)[state].blocks[byte >> 5];
    const int32_t known = block < 0 ? kUnknown : steps_[block][byte & 31];
    return known == kUnknown ? compute_step(state, byte) : known;
  }

  // Whether a byte is worth a step: false where none leads on. O(1) if asked before.
  bool may_come(int32_t state, int32_t byte) {
    const auto& known = (*this)[state].may_come;
    if (!(known[0] | known[1] | known[2] | known[3])) find_bytes(state);
    return (*this)[state].may_come[byte >> 6] >> (byte & 63) & 1;
  }

 protected:
  // The frame of raw texts after a byte, -1 where none goes on.
  int32_t raw_byte(int32_t frame, int32_t byte) {
    const Frame at = this->frame(frame);
    begin_frame(Phase::kRaw, at.parent,
                at.text < 0 ? kNone : values.texts.child(at.text, byte), at.value);
    for (const Item& item : at.items) {
      const int32_t after = p.step(item.place, byte);
      if (after >= 0) add({item.value, item.part, after, 0});
    }
    return end_frame();
  }

 private:
  static constexpr int32_t kUnknown = -3;
  using Block = std::array<int32_t, 32>;

  int32_t compute_step(int32_t state, int32_t byte) {
    const auto [frame, lexical] = std::pair((*this)[state].frame, (*this)[state].lexical);
    work_.spent += static_cast<int64_t>(rows(frame).size());
    const int32_t after = found_step(frame, lexical, byte);
    if ((*this)[state].blocks[byte >> 5] < 0) {
      Block block;
      block.fill(kUnknown);
      steps_.push_back(block);
      (*this)[state].blocks[byte >> 5] = static_cast<int32_t>(steps_.size()) - 1;
    }
    steps_[(*this)[state].blocks[byte >> 5]][byte & 31] = after;
    if (work_.is_over()) throw Paused{};
    return after;
  }

  int32_t found_step(int32_t frame, LexicalState lexical, int32_t byte) {
    const Phase phase = this->frame(frame).phase;
    if (phase == Phase::kKey || phase == Phase::kString) {
      if (byte != '"' || lexical.is_escape()) return content_byte(frame, lexical, byte);
      return state_of(phase == Phase::kKey ? key_end(frame) : closed(frame),
                      between(lexical.style()));
    }
    if (phase == Phase::kRaw) {
      const Style style = lexical.style();
      const int32_t further = raw_byte(frame, byte);
      if (further >= 0) return raw_state(further, style);
      frame = closed(frame);
      lexical = between(style);
      if (frame < 0) return -1;
    }
    if (p.layout) return laid_out(frame, lexical, byte);
    if (byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r') {
      const int32_t blank = p.step(lexical.blanks(), byte);
      return blank < 0 ? -1 : state_of(frame, LexicalState(blank));
    }
    if (p.state_label[lexical.blanks()] < 0) return -1;
    if (lexical.blanks() == p.blank) return structural(frame, byte, Style::kUndecided);
    // As if no white space had stood before it.
    return nearly_step(state_of(frame, LexicalState(p.blank)), byte);
  }

  // The state after a byte between strings and raw texts.
  int32_t laid_out(int32_t frame, LexicalState lexical, int32_t byte) {
    if (byte == ' ' || byte == '\n' || byte == '\t') {
      const LexicalState after = lexical_after_blank(frame, lexical, byte);
      return after.bits() < 0 ? -1 : state_of(frame, after);
    }
    const int32_t style = style_behind(this->frame(frame).phase, lexical, byte);
    return style < 0 ? -1 : structural(frame, byte, static_cast<Style>(style));
  }

  // The state after a byte that is no white space, outside of strings and raw texts.
  int32_t structural(int32_t frame, int32_t byte, Style style) {
    const Phase phase = this->frame(frame).phase;
    if (awaits_value(phase)) return value_begin(frame, byte, style);
    switch (phase) {
      case Phase::kObjectOpen:
      case Phase::kObjectComma:
        if (byte == '"') return state_of(keys_of(frame, Phase::kKey), LexicalState(style, 0));
        if (phase == Phase::kObjectOpen && byte == '}')
          return state_of(closed(frame), between(style));
        return -1;
      case Phase::kObjectColon:
        return byte == ':' ? state_of(in_phase(frame, Phase::kObjectValue), between(style)) : -1;
      case Phase::kObjectNext:
        if (byte == ',') return state_of(keys_of(frame, Phase::kObjectComma), between(style));
        return byte == '}' ? state_of(closed(frame), between(style)) : -1;
      case Phase::kArrayNext:
        if (byte == ',') return state_of(elements_of(frame), between(style));
        return byte == ']' ? state_of(closed(frame), between(style)) : -1;
      case Phase::kArrayOpen: {
        if (byte == ']') return state_of(closed(frame), between(style));
        const int32_t awaiting = elements_of(frame);
        return awaiting < 0 ? -1 : value_begin(awaiting, byte, style);
      }
      default:
        return -1;
    }
  }

  // The state after the first byte of a value that a frame awaits.
  int32_t value_begin(int32_t frame, int32_t byte, Style style) {
    const Phase phase = byte == '"'   ? Phase::kString
                        : byte == '{' ? Phase::kObjectOpen
                        : byte == '[' ? Phase::kArrayOpen
                                      : Phase::kRaw;
    const Frame outside = this->frame(frame);
    const bool is_remembered = outside.value >= 0 || (!outside.is_relaxed() && has_distinct(outside));
    const int32_t other = outside.is_relaxed() ? kRelaxed : kNone;
    int32_t text = kNone, value = other;
    if (is_remembered && phase == Phase::kString) text = 0;
    if (is_remembered && phase == Phase::kRaw) text = values.texts.child(0, byte);
    if (is_remembered && phase == Phase::kObjectOpen) value = values.empty_object();
    if (is_remembered && phase == Phase::kArrayOpen) value = values.empty_array();
    begin_frame(phase, frame, text, value);
    for (const Item& item : outside.items) add_alternatives(phase, item.content, byte);
    const int32_t made = end_frame();
    if (phase == Phase::kRaw) return raw_state(made, style);
    return state_of(made, phase == Phase::kString ? LexicalState(style, 0) : between(style));
  }

  // Adds how a value may begin with a byte.
  void add_alternatives(Phase phase, int32_t value, int32_t byte) {
    if (phase == Phase::kString) {
      for (const int64_t string : range(p.string_offsets, value)) {
        const int32_t begin = p.string_begin(string);
        if (begin >= 0) add({value, static_cast<int32_t>(string), begin, 0});
      }
    } else if (phase == Phase::kObjectOpen) {
      for (const int64_t at : range(p.object_offsets, value))
        add({value, p.object_ids[at], progresses.object_start(p.object_ids[at]), 0});
    } else if (phase == Phase::kArrayOpen) {
      for (const int64_t at : range(p.array_offsets, value))
        add({value, p.array_ids[at], progresses.array_start(p.array_ids[at]), 0});
    } else if (p.raw_start[value] >= 0) {
      const int32_t after = p.step(p.raw_start[value], byte);
      if (after >= 0) add({value, 0, after, 0});
    }
  }

  // The state of a frame of raw texts; that behind them where none of them goes on.
  int32_t raw_state(int32_t frame, Style style) {
    if (frame < 0) return -1;
    for (const Item& item : this->frame(frame).items)
      if (!range(p.state_edges, item.place).empty()) return state_of(frame, LexicalState(style, 0));
    return state_of(closed(frame), between(style));
  }

  int32_t in_phase(int32_t frame, Phase phase) {
    const Frame at = this->frame(frame);
    begin_frame(phase, at.parent, at.text, at.value);
    for (const Item& item : at.items) add(item);
    return end_frame();
  }

  // Adds the bytes that may come in a string, key or raw text; elsewhere all.
  void find_bytes(int32_t state) {
    const Frame at = frame((*this)[state].frame);
    auto& bytes = (*this)[state].may_come;
    const auto add_bytes = [&](int32_t low, int32_t high) {
      for (int32_t byte = low; byte <= high; ++byte) bytes[byte >> 6] |= uint64_t{1} << (byte & 63);
    };
    if (at.phase < Phase::kKey || (*this)[state].lexical.is_escape()) return add_bytes(0, 0xFF);
    for (const Item& item : at.items) {
      const int32_t place = at.phase == Phase::kKey ? item.content : item.place;
      bool has_edges = false;
      p.each_edge(place, [&](int32_t low, int32_t high) {
        has_edges = true;
        add_bytes(low, high);
      });
      if (at.phase == Phase::kRaw && p.state_label[place] >= 0)
        for (const char byte : {' ', '\t', '\n', '\r', ',', ']', '}'}) add_bytes(byte, byte);
      if (at.phase == Phase::kRaw) continue;
      if (p.is_string(place)) add_bytes('"', '"');
      if (has_edges) add_bytes('\\', '\\');
    }
  }

  std::pmr::vector<Block> steps_;
};

}  // namespace cdec::schemas
