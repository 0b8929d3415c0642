// Ways to the end of a text: from each state one, a byte at a time, and its fewest tokens.
//
// The way is chosen by the state alone, so that whoever follows it stays on it: brackets and quotes
// are closed where they may be, what is required comes first, and of values the smallest. A token
// is of use where it spells a part of the way; the fewest that spell all of it bound from above
// with how few the text may end.
#pragma once

#include <unordered_map>

#include "budgets.h"
#include "spelling.h"

namespace cdec::schemas {

class Endings {
 public:
  static constexpr int32_t kFar = kFarEnd;  // where no way is found

  Endings(States& states, Budgets& budgets, const cdec_token_trie& tokens)
      : states_(states), budgets_(budgets), p(states.p), spelling_(tokens) {
    measure_values();
  }

  // The fewest tokens that spell the way from a state; 0 where the text may end.
  int32_t fewest(int32_t state) {
    path_.clear();
    int32_t at = state;
    for (; !is_known(at); at = ways_[at].next) {
      if (states_[at].may_end) {
        ways_[at] = {.fewest = 0};
        break;
      }
      if (static_cast<int64_t>(path_.size()) == kLongest) {
        ways_[state].fewest = kFar;
        return kFar;
      }
      find_next(at);
      if (ways_[at].next < 0) {
        ways_[at].fewest = kFar;
        break;
      }
      path_.push_back(at);
    }
    for (; !path_.empty(); path_.pop_back()) measure(path_.back());
    return ways_[state].fewest;
  }

  // The first state of the way from a state in a string or key that lies behind its closing quote.
  int32_t behind_quote(int32_t state) {
    if (fewest(state) == kFar) return -1;
    for (bool is_behind = false; !is_behind; state = ways_[state].next)
      is_behind = ways_[state].byte == '"' && !states_[state].lexical.is_escape();
    return state;
  }

 private:
  static constexpr int64_t kLongest = 1 << 16;  // bytes of a way
  struct Nearest {
    int64_t cost = kFar;
    int32_t byte = -1;  // the first one of the way; -1 where none is needed, or there is no way
  };

  bool is_known(int32_t state) {
    if (state >= static_cast<int64_t>(ways_.size())) ways_.resize(states_.size());
    return ways_[state].fewest != Way::kUnknown;
  }

  // Counts the tokens of a way whose other states are known.
  void measure(int32_t state) {
    Way& way = ways_[state];
    const Way& behind = ways_[way.next];
    way.length = behind.length + 1;
    const bool is_far = behind.fewest == kFar || way.length > kLongest;
    way.fewest = is_far          ? kFar
                 : way.byte < 0 ? behind.fewest + 1
                                 : spelling_.fewest(ways_, state);
  }

  // Chooses the next byte: the one that is wanted, or the white space that must stand before it; a
  // member where a line is broken behind an opening bracket, so that none may close there.
  void find_next(int32_t state) {
    if (counts_tokens(state)) return go_by_token(state);
    if (goes_on(state, wanted_byte(state))) return;
    for (const char blank : {' ', '\n', '\t'})
      if (goes_on(state, blank)) return;
    const int32_t frame = states_[state].frame;
    const Phase phase = states_.frame(frame).phase;
    if (is_open(phase) &&
        goes_on(state, phase == Phase::kObjectOpen ? '"' : value_byte(best_element(frame))))
      return;
    // What is wanted was used, where values must differ: something else.
    const int32_t first = phase == Phase::kRaw ? '1' : 'a';
    for (int32_t i = 0; p.has_distinct && i < 256; ++i)
      if (goes_on(state, (i + first) & 0xFF)) return;
  }

  // Whether a state is within a string whose tokens count, where it may not end.
  bool counts_tokens(int32_t state) {
    if (p.string_tokens.empty()) return false;
    const int32_t frame = states_[state].frame;
    if (states_.frame(frame).phase != Phase::kString) return false;
    const auto& items = followed(frame);
    if (std::ranges::none_of(items, [&](const Item& item) { return budgets_.left(item) >= 0; }))
      return false;
    return states_[state].lexical.is_escape() || !may_end(frame);
  }

  // Goes on by the first of the fewest tokens to the end of the string.
  void go_by_token(int32_t state) {
    const LexicalState lexical = states_[state].lexical;
    const std::vector<Item> items = followed(states_[state].frame);
    Budgets::Reach best{Budgets::kFar, -1};
    for (const Item& item : items)
      if (const auto found = budgets_.reach(item, lexical); found.fewest < best.fewest) best = found;
    if (best.token < 0) return;
    const int32_t after = budgets_.settle(states_.step_token(state, best.token));
    if (after < 0) return;
    is_known(std::max(state, after));  // makes room
    ways_[state].next = after;
    ways_[state].byte = -1;
  }

  bool goes_on(int32_t state, int32_t byte) {
    const int32_t after = byte < 0 ? -1 : states_.step(state, byte);
    if (after < 0) return false;
    is_known(after);  // makes room
    ways_[state].next = after;
    ways_[state].byte = byte;
    return true;
  }

  int32_t wanted_byte(int32_t state) {
    const int32_t frame = states_[state].frame;
    const Phase phase = states_.frame(frame).phase;
    if (states_[state].lexical.is_escape()) return first_of(state, kEscapes);
    switch (phase) {
      case Phase::kRootValue:
      case Phase::kObjectValue:
      case Phase::kArrayValue:
        return value_byte(best_awaited(frame));
      case Phase::kObjectComma:
        return '"';
      case Phase::kObjectColon:
        return ':';
      case Phase::kObjectOpen:
      case Phase::kObjectNext:
        if (may_end(frame)) return '}';
        return phase == Phase::kObjectOpen ? '"' : ',';
      case Phase::kArrayOpen:
        return may_end(frame) ? ']' : value_byte(best_element(frame));
      case Phase::kArrayNext:
        return may_end(frame) ? ']' : ',';
      case Phase::kKey:
        return key_byte(state);
      case Phase::kString:
        return string_byte(state);
      case Phase::kRaw:
        return raw_byte(frame);
      default:
        return -1;
    }
  }

  static constexpr std::string_view kEscapes = "\"\\/bfnrtu0123456789abcdef";

  int32_t first_of(int32_t state, std::string_view bytes) {
    for (const char byte : bytes)
      if (states_.step(state, static_cast<uint8_t>(byte)) >= 0) return static_cast<uint8_t>(byte);
    return -1;
  }

  // -- alternatives

  // The alternatives of a level that the way follows: of those of a value whose end brings the
  // level outside nearest to its own.
  const std::vector<Item>& followed(int32_t frame) {
    if (const auto known = followed_.find(frame); known != followed_.end()) return known->second;
    const Frame at = states_.frame(frame);
    std::vector<Item> items(at.items.begin(), at.items.end());
    if (at.parent >= 0) {
      const auto& outside = followed(at.parent);
      int64_t least = kFar;
      std::vector<int32_t> values;
      for (const Item& item : outside) {
        if (std::ranges::none_of(items, [&](const Item& own) { return own.value == item.content; }))
          continue;
        const int64_t need = need_of(states_.frame(at.parent).phase, item);
        if (need < least) values.clear();
        least = std::min(least, need);
        if (need == least) values.push_back(item.content);
      }
      if (!values.empty())
        std::erase_if(items, [&](const Item& own) {
          return std::ranges::find(values, own.value) == values.end();
        });
    }
    return followed_[frame] = std::move(items);
  }

  // How many elements, keys and choices an alternative lacks.
  int64_t need_of(Phase phase, const Item& item) const {
    if (phase == Phase::kRootValue) return 0;
    const bool is_array = phase == Phase::kArrayValue || phase == Phase::kArrayOpen ||
                          phase == Phase::kArrayNext;
    const auto numbers = states_.progresses[item.place];
    const auto& offsets = is_array ? p.array_counter_offsets : p.object_counter_offsets;
    const auto& minima = is_array ? p.array_counter_min : p.object_counter_min;
    const Range counters = range(offsets, item.part);
    const int64_t first = is_array ? 1 : int64_t{kCounters};
    const int64_t least = is_array ? p.array_min[item.part] : p.object_min[item.part];
    const int64_t missing = is_array ? 0 : numbers[kMissing];
    int64_t lacking = missing + std::max<int64_t>(least - numbers[kCount] - missing, 0);
    for (const int64_t counter : counters)
      lacking += std::max<int64_t>(minima[counter] - numbers[first + counter - counters.first], 0);
    return lacking;
  }

  bool may_end(int32_t frame) {
    const Phase phase = states_.frame(frame).phase;
    return std::ranges::any_of(followed(frame),
                               [&](const Item& item) { return states_.item_may_end(phase, item); });
  }

  // The value to write of those that a level awaits.
  int32_t best_awaited(int32_t frame) {
    const Phase phase = states_.frame(frame).phase;
    std::pair best{int64_t{kFar}, int64_t{kFar}};
    int32_t value = -1;
    for (const Item& item : followed(frame)) {
      const std::pair cost{need_of(phase, item), sizes_[item.content]};
      if (cost < best) best = cost, value = item.content;
    }
    return value;
  }

  // The value to write as the first element of an array.
  int32_t best_element(int32_t frame) {
    std::pair best{int64_t{kFar}, int64_t{kFar}};
    int32_t value = -1;
    const std::vector<Item> items = followed(frame);
    for (const Item& item : items) {
      const int64_t position = states_.progresses.position(item.part, item.place);
      for (const int64_t choice : range(p.position_choice_offsets, position)) {
        const int32_t after = states_.progresses.array_after(item.part, item.place, choice);
        if (after < 0) continue;
        const Item next{item.value, item.part, after, 0};
        const std::pair cost{need_of(Phase::kArrayNext, next), sizes_[p.choice_value[choice]]};
        if (cost < best) best = cost, value = p.choice_value[choice];
      }
    }
    return value;
  }

  // -- bytes of values

  // Walks an automaton from a state to the cheapest state; `cost` is kFar where none ends.
  template <class Cost>
  Nearest nearest(int32_t from, Cost&& cost) {
    Nearest best{cost(from), -1};
    struct Reached {
      int32_t state, byte;
    };
    std::vector<Reached> layer{{from, -1}}, next;
    std::unordered_map<int32_t, bool> seen{{from, true}};
    for (int64_t distance = 1; !layer.empty() && distance < best.cost; ++distance) {
      next.clear();
      for (const auto [state, byte] : layer)
        for (const int64_t edge : range(p.state_edges, state)) {
          const int32_t target = p.edge_target[edge];
          if (!seen.emplace(target, true).second) continue;
          const int32_t first = byte < 0 ? p.edge_low[edge] : byte;
          const int64_t found = cost(target) + distance;
          if (found < best.cost) best = {found, first};
          next.push_back({target, first});
        }
      layer.swap(next);
    }
    return best;
  }

  Nearest nearest_raw(int32_t state) {
    return nearest(state, [&](int32_t at) -> int64_t { return p.state_label[at] >= 0 ? 0 : kFar; });
  }

  // The first byte of a smallest text of a value.
  int32_t value_byte(int32_t value) {
    if (value < 0) return -1;
    int32_t byte = -1;
    int64_t best = kFar;
    const auto offer = [&](int64_t size, int32_t first) {
      if (size < best) best = size, byte = first;
    };
    if (p.raw_start[value] >= 0) {
      const Nearest raw = nearest_raw(p.raw_start[value]);
      offer(raw.cost, raw.byte);
    }
    for (const int64_t string : range(p.string_offsets, value)) offer(string_size(string), '"');
    for (const int64_t at : range(p.array_offsets, value)) offer(array_size(p.array_ids[at]), '[');
    for (const int64_t at : range(p.object_offsets, value))
      offer(object_size(p.object_ids[at]), '{');
    return byte;
  }

  // Of a number or word that may end here: what comes behind it.
  int32_t raw_byte(int32_t frame) {
    Nearest best;
    for (const Item& item : followed(frame))
      if (const Nearest found = nearest_raw(item.place); found.cost < best.cost) best = found;
    if (best.cost > 0) return best.byte;
    const Frame at = states_.frame(frame);
    const Phase phase = states_.frame(at.parent).phase;
    const bool is_array = phase == Phase::kArrayValue;
    const Phase next = is_array ? Phase::kArrayNext : Phase::kObjectNext;
    const std::vector<Item> items = followed(frame);
    for (const Item& outside : followed(at.parent)) {
      const bool is_ended = std::ranges::any_of(items, [&](const Item& item) {
        return item.value == outside.content && p.state_label[item.place] >= 0;
      });
      if (is_ended && states_.item_may_end(next, outside)) return is_array ? ']' : '}';
    }
    return ',';
  }

  // How many characters a string lacks, but for members of sets.
  int64_t lacking(int32_t frame) {
    int64_t least = kFar;
    for (const Item& item : followed(frame))
      if (!p.sets.is_place(item.place))
        least = std::min<int64_t>(least, std::max<int64_t>(p.state_shortest[item.place],
                                                           p.string_min[item.part] - item.content));
    return least;
  }

  // The byte with which a way to a member's end goes on, or the first one with which a member of a set
  // does: that is content as it is, or escaped.
  // Where members must differ, some bytes may lead to none that is left.
  int32_t member_byte(int32_t state) {
    ByteSet bytes;
    for (const Item& item : followed(states_[state].frame)) {
      const int32_t way = p.sets.way(item.place);
      if (way >= 0 && states_.step(state, way) >= 0) return way;
      bytes |= p.sets.bytes(item.place);
    }
    for (int32_t byte = 0x20; byte < 256; ++byte)
      if (bytes[byte] && byte != '"' && byte != '\\' && states_.step(state, byte) >= 0) return byte;
    return '\\';
  }

  int32_t string_byte(int32_t state) {
    const int32_t frame = states_[state].frame;
    if (may_end(frame) && states_.step(state, '"') >= 0) return '"';
    if (lacking(frame) == kFar) return member_byte(state);
    const int64_t wanted = std::max<int64_t>(lacking(frame) - 1, 0);
    int64_t least = kFar;
    int32_t best = -1;
    for (int32_t i = 0; i < 256 && least > wanted; ++i) {
      const int32_t byte = (i + 'a') & 0xFF;
      const int32_t after = byte == '"' || byte == '\\' ? -1 : states_.step(state, byte);
      if (after < 0) continue;
      const int64_t left = lacking(states_[after].frame);
      if (left < least) least = left, best = byte;
    }
    return best >= 0 ? best : first_of(state, "\\");
  }

  int32_t key_byte(int32_t state) {
    const int32_t frame = states_[state].frame;
    const std::vector<Item> items = followed(frame);
    int64_t need = kFar;
    for (const Item& item : items) need = std::min(need, need_of(Phase::kObjectNext, item));
    Nearest best;
    for (const Item& item : items) {
      if (need_of(Phase::kObjectNext, item) != need) continue;
      const Nearest found = nearest(item.content, [&](int32_t at) { return key_cost(item, at); });
      if (found.cost < best.cost) best = found;
    }
    if (best.cost < kFar && best.byte >= 0) return best.byte;
    if (states_.step(state, '"') >= 0) return '"';
    // The key was there before: a longer one was not.
    for (int32_t i = 0; i < 256; ++i) {
      const int32_t byte = (i + 'a') & 0xFF;
      if (byte != '"' && states_.step(state, byte) >= 0) return byte;
    }
    return -1;
  }

  // What a key is worth that ends in a state of its automaton: first what is required, then sizes.
  int64_t key_cost(const Item& item, int32_t key) {
    constexpr int64_t kUseless = kFar / 2;
    const int64_t slot = states_.progresses.slot_of(item.part, item.place, key);
    if (slot < 0) return kFar;
    const int64_t own = p.object_slot_offsets[item.part] + slot;
    const int64_t need = need_of(Phase::kObjectNext, item);
    int64_t least = kFar;
    Progresses& progresses = states_.progresses;
    for (const int64_t choice : range(p.slot_choice_offsets, own)) {
      const int32_t after = progresses.object_after(item.part, item.place, slot, choice, -1);
      if (after < 0) continue;
      const int64_t left = need_of(Phase::kObjectNext, {item.value, item.part, after, 0});
      const int64_t size = std::min<int64_t>(sizes_[p.choice_value[choice]], kUseless / 2);
      least = std::min(least, size + (left < need || need == 0 ? 0 : kUseless));
    }
    return least;
  }

  // -- sizes of the smallest texts, in bytes or nearly

  void measure_values() {
    sizes_.assign(p.raw_start.size, kFar);
    raw_sizes_.assign(p.raw_start.size, kFar);
    for (int64_t value = 0; value < p.raw_start.size; ++value)
      if (p.raw_start[value] >= 0) raw_sizes_[value] = nearest_raw(p.raw_start[value]).cost;
    for (bool is_over = false; !is_over;) {
      is_over = true;
      for (int64_t value = 0; value < p.raw_start.size; ++value) {
        int64_t size = raw_sizes_[value];
        for (const int64_t string : range(p.string_offsets, value))
          size = std::min(size, string_size(string));
        for (const int64_t at : range(p.array_offsets, value))
          size = std::min(size, array_size(p.array_ids[at]));
        for (const int64_t at : range(p.object_offsets, value))
          size = std::min(size, object_size(p.object_ids[at]));
        if (size >= sizes_[value]) continue;
        sizes_[value] = size;
        is_over = false;
      }
    }
  }

  int64_t least_of(Range choices) const {
    int64_t least = kFar;
    for (const int64_t choice : choices) least = std::min(least, sizes_[p.choice_value[choice]]);
    return least;
  }

  int64_t string_size(int64_t string) const {
    const int32_t begin = p.string_begin(string);
    if (begin < 0) return kFar;
    const int64_t shortest = p.sets.is_place(begin) ? 1 : p.state_shortest[begin];
    const int64_t characters = std::max<int64_t>(shortest, p.string_min[string]);
    return std::min<int64_t>(2 + characters, kFar - 1);
  }

  int64_t array_size(int32_t array) const {
    const auto [first, last] = range(p.array_position_offsets, array);
    const int64_t least = p.array_min[array], own = std::min(least, last - 1 - first);
    int64_t size = 2;
    for (int64_t i = 0; i < own; ++i)
      size += 1 + least_of(range(p.position_choice_offsets, first + i));
    const Range rest = range(p.position_choice_offsets, last - 1);
    if (least > own) size += (least - own) * (1 + least_of(rest));
    return std::min<int64_t>(size, kFar);
  }

  int64_t object_size(int32_t object) const {
    int64_t size = 2, keys = 0, other = kFar;
    for (const int64_t slot : range(p.object_slot_offsets, object)) {
      const int64_t own = 4 + p.key_offsets[slot + 1] - p.key_offsets[slot] +
                          least_of(range(p.slot_choice_offsets, slot));
      if (p.slot_required[slot]) ++keys, size += own;
      other = std::min(other, own);
    }
    if (p.object_min[object] > keys) size += (p.object_min[object] - keys) * other;
    return std::min<int64_t>(size, kFar);
  }

  States& states_;
  Budgets& budgets_;
  const Program& p;
  const Spelling spelling_;
  std::vector<Way> ways_;           // by state
  std::vector<int32_t> path_;       // of the way that is found: its states that are not known
  std::vector<int64_t> sizes_, raw_sizes_;  // of values
  std::unordered_map<int32_t, std::vector<Item>> followed_;  // by frame
};

}  // namespace cdec::schemas
