#include "states.h"

#include <algorithm>
#include <string_view>

namespace cdec::schemas {

int32_t States::start() {
  const bool is_fixed = 0 < p.layout && p.layout <= kMostIndent;
  begin_frame(Phase::kRootValue, -1);
  add({});
  return state_of(end_frame(), between(is_fixed ? Style::kByTwo : Style::kUndecided));
}

int32_t States::end_frame() {
  if (built_.size() == 1) return -1;
  std::sort(built_.begin() + 1, built_.end());
  built_.erase(std::unique(built_.begin() + 1, built_.end()), built_.end());
  return static_cast<int32_t>(frames_.intern(built_));
}

int32_t States::state_of(int32_t frame, Mark mark) {
  if (frame < 0) return -1;
  const int64_t key = int64_t{frame} << 32 | mark.bits(), known = index_.find(key);
  if (known != Table::kAbsent) return static_cast<int32_t>(known);
  if (memory_.bytes() > most_) throw StatesFull{};
  states_.push_back({frame, mark});
  states_.back().may_end = frame_may_end(frame, mark);
  index_.set(key, size() - 1);
  return static_cast<int32_t>(size() - 1);
}

bool States::frame_may_end(int32_t number, Mark mark) const {
  const Frame at = frame(number);
  if (at.phase == Phase::kRootDone) return p.layout || p.state_label[mark.blanks()] >= 0;
  if (at.phase != Phase::kRaw || frame(at.parent).phase != Phase::kRootValue) return false;
  return std::ranges::any_of(at.items, [&](const Item &item) { return item_may_end(at.phase, item); });
}

int32_t States::step_token(int32_t state, int64_t token) {
  const Range bytes = range(p.vocabulary_offsets, token);
  if (bytes.empty()) return -1;
  for (const int64_t at : bytes) {
    state = step(state, p.vocabulary_bytes[at]);
    if (state < 0) return -1;
  }
  return state;
}

int32_t States::compute_step(int32_t state, int32_t byte) {
  const auto [frame, mark] = std::pair(states_[state].frame, states_[state].mark);
  work_.spent += static_cast<int64_t>(rows(frame).size());
  const int32_t after = found_step(frame, mark, byte);
  if (states_[state].blocks[byte >> 5] < 0) {
    Block block;
    block.fill(kUnknown);
    steps_.push_back(block);
    states_[state].blocks[byte >> 5] = static_cast<int32_t>(steps_.size()) - 1;
  }
  steps_[states_[state].blocks[byte >> 5]][byte & 31] = after;
  if (work_.is_over()) throw Paused{};
  return after;
}

int32_t States::found_step(int32_t frame, Mark mark, int32_t byte) {
  const Phase phase = this->frame(frame).phase;
  if (phase == Phase::kKey || phase == Phase::kString) {
    if (byte != '"' || mark.is_escape()) return content_byte(frame, mark, byte);
    return state_of(phase == Phase::kKey ? key_end(frame) : closed(frame), between(mark.style()));
  }
  if (phase == Phase::kRaw) {
    const Style style = mark.style();
    const int32_t further = raw_byte(frame, byte);
    if (further >= 0) return raw_state(further, style);
    frame = closed(frame);
    mark = between(style);
    if (frame < 0) return -1;
  }
  if (p.layout) return laid_out(frame, mark, byte);
  if (byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r') {
    const int32_t blank = p.step(mark.blanks(), byte);
    return blank < 0 ? -1 : state_of(frame, Mark(blank));
  }
  if (p.state_label[mark.blanks()] < 0) return -1;
  if (mark.blanks() == p.blank) return structural(frame, byte, Style::kUndecided);
  // As if no white space had stood before it.
  return step(state_of(frame, Mark(p.blank)), byte);
}

// The state after a byte that is no white space, outside of strings and raw texts.
int32_t States::structural(int32_t frame, int32_t byte, Style style) {
  const Phase phase = this->frame(frame).phase;
  if (awaits_value(phase)) return value_begin(frame, byte, style);
  switch (phase) {
    case Phase::kObjectOpen:
    case Phase::kObjectComma:
      if (byte == '"') return state_of(keys_of(frame, Phase::kKey), Mark(style, 0));
      if (phase == Phase::kObjectOpen && byte == '}') return state_of(closed(frame), between(style));
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
int32_t States::value_begin(int32_t frame, int32_t byte, Style style) {
  const Phase phase = byte == '"'   ? Phase::kString
                      : byte == '{' ? Phase::kObjectOpen
                      : byte == '[' ? Phase::kArrayOpen
                                    : Phase::kRaw;
  const Frame outside = this->frame(frame);
  const bool is_distinct = phase == Phase::kString && outside.phase == Phase::kArrayValue &&
                           std::ranges::any_of(outside.items, [&](const Item &item) {
                             return p.array_distinct[item.part];
                           });
  begin_frame(phase, frame, is_distinct ? 0 : -1);
  for (const Item &item : outside.items) add_alternatives(phase, item.content, byte);
  const int32_t made = end_frame();
  if (phase == Phase::kRaw) return raw_state(made, style);
  return state_of(made, phase == Phase::kString ? Mark(style, 0) : between(style));
}

// Adds how a value may begin with a byte.
void States::add_alternatives(Phase phase, int32_t value, int32_t byte) {
  if (phase == Phase::kString) {
    for (const int64_t string : range(p.string_offsets, value))
      add({value, static_cast<int32_t>(string), p.string_start[string], 0});
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

// The frame of raw texts after a byte, -1 where none goes on.
int32_t States::raw_byte(int32_t frame, int32_t byte) {
  const Frame at = this->frame(frame);
  begin_frame(Phase::kRaw, at.parent);
  for (const Item &item : at.items) {
    const int32_t after = p.step(item.place, byte);
    if (after >= 0) add({item.value, item.part, after, 0});
  }
  return end_frame();
}

// The state of a frame of raw texts; that behind them where none of them goes on.
int32_t States::raw_state(int32_t frame, Style style) {
  if (frame < 0) return -1;
  for (const Item &item : this->frame(frame).items)
    if (!range(p.state_edges, item.place).empty()) return state_of(frame, Mark(style, 0));
  return state_of(closed(frame), between(style));
}

int32_t States::in_phase(int32_t frame, Phase phase) {
  const Frame at = this->frame(frame);
  begin_frame(phase, at.parent);
  for (const Item &item : at.items) add(item);
  return end_frame();
}

namespace {

// What may come in a phase, but for white space.
std::string_view bytes_of(Phase phase) {
  switch (phase) {
    case Phase::kObjectOpen:
      return "\"}";
    case Phase::kObjectComma:
      return "\"";
    case Phase::kObjectColon:
      return ":";
    case Phase::kObjectNext:
      return ",}";
    case Phase::kArrayOpen:
      return "-0123456789\"{[tfn]";
    case Phase::kArrayNext:
      return ",]";
    default:
      return "";
  }
}

void add_byte(std::array<uint64_t, 4> &bytes, int32_t byte) {
  bytes[byte >> 6] |= uint64_t{1} << (byte & 63);
}

void add_bytes(std::array<uint64_t, 4> &bytes, std::string_view more) {
  for (const char byte : more) add_byte(bytes, byte);
}

constexpr std::string_view kSpace = " \t\n\r";

}  // namespace

void States::find_bytes(int32_t state) {
  const Frame at = frame(states_[state].frame);
  auto &bytes = states_[state].may_come;
  const bool is_content = at.phase == Phase::kKey || at.phase == Phase::kString;
  if (awaits_value(at.phase)) return find_values(at, bytes);
  if (is_content && states_[state].mark.is_escape()) {
    bytes = {~uint64_t{0xFFFFFFFF}, ~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}};
  } else if (!is_content && at.phase != Phase::kRaw) {
    add_bytes(bytes, kSpace);
    add_bytes(bytes, bytes_of(at.phase));
  } else {
    bool ends = false, goes_on = false;
    for (const Item &item : at.items) {
      const int32_t place = at.phase == Phase::kKey ? item.content : item.place;
      ends |= p.state_label[place] >= 0;
      goes_on |= add_edges(place, bytes);
    }
    if (is_content && ends) add_byte(bytes, '"');
    if (is_content && goes_on) add_byte(bytes, '\\');
    if (!is_content && ends) add_bytes(bytes, " \t\n\r,]}");
  }
}

// Adds white space, and how the values that a frame awaits begin.
void States::find_values(const Frame &frame, std::array<uint64_t, 4> &bytes) const {
  add_bytes(bytes, kSpace);
  for (const Item &item : frame.items) {
    if (!range(p.string_offsets, item.content).empty()) add_byte(bytes, '"');
    if (!range(p.array_offsets, item.content).empty()) add_byte(bytes, '[');
    if (!range(p.object_offsets, item.content).empty()) add_byte(bytes, '{');
    if (p.raw_start[item.content] >= 0) add_edges(p.raw_start[item.content], bytes);
  }
}

// Adds the bytes that lead on from a state of an automaton; says whether there are any.
bool States::add_edges(int32_t place, std::array<uint64_t, 4> &bytes) const {
  const Range edges = range(p.state_edges, place);
  for (const int64_t edge : edges)
    for (int32_t byte = p.edge_low[edge]; byte <= p.edge_high[edge]; ++byte) add_byte(bytes, byte);
  return !edges.empty();
}

}  // namespace cdec::schemas
