// States of texts in which values must differ: whether they can still come to do so.
//
// A value that stands open is told apart from those that stood in its array before by what is
// spelled of it so far, at every level of nesting. Once it can become none of them, nothing more need
// be asked: any end will do. Until then the ways on are tried, of each value one spelling, which ends
// as soon as one of them is told apart; so what is tried is little more than what stood there.
#pragma once

#include <bitset>
#include <deque>
#include <unordered_set>

#include "states.h"

namespace cdec::schemas {

class States : public Steps {
 public:
  using Steps::Steps;

  // The state after a byte, -1 for none. O(1) if done before.
  int32_t step(int32_t state, int32_t byte) {
    const int32_t after = nearly_step(state, byte);
    return after < 0 || !p.has_distinct || leads_on(after) ? after : -1;
  }

  // The state after a token's bytes, -1 where it is not allowed, or has none.
  int32_t step_token(int32_t state, int64_t token) {
    const Range bytes = range(p.vocabulary_offsets, token);
    if (bytes.empty()) return -1;
    for (const int64_t at : bytes) {
      state = step(state, p.vocabulary_bytes[at]);
      if (state < 0) return -1;
    }
    return state;
  }

  // Whether all that stands open in a state is told apart from what it must differ from.
  bool is_free(int32_t state) {
    return !p.has_distinct || (leads_on(state) && (*this)[state].lead == Lead::kFree);
  }

  // The bytes with which what is spelled of a key or string goes on to something that was used.
  std::bitset<256> used_bytes(int32_t state) {
    std::bitset<256> bytes;
    used_bytes_ = &bytes;
    is_apart((*this)[state].frame);
    used_bytes_ = nullptr;
    return bytes;
  }

  // The frame as if nothing had to differ, of the levels outside as well; O(levels).
  int32_t relaxed(int32_t number) {
    if (number < 0 || frame(number).is_relaxed()) return number;
    const int64_t known = relaxed_.find(number);
    if (known != Table::kAbsent) return static_cast<int32_t>(known);
    const int32_t parent = relaxed(frame(number).parent);
    const Frame at = frame(number);
    begin_frame(at.phase, parent, kNone, kRelaxed);
    for (Item item : at.items) {
      if (is_in_array(at.phase)) item.place = progresses.relaxed_array(item.part, item.place);
      if (is_in_object(at.phase)) item.place = progresses.relaxed_object(item.part, item.place);
      add(item);
    }
    const int32_t made = end_frame();
    relaxed_.set(number, made);
    return made;
  }

  // The keys that stand in the open objects of a frame, as far as they are remembered.
  std::vector<std::string> remembered_keys(int32_t number) const {
    std::vector<std::string> found;
    for (; number >= 0; number = frame(number).parent) {
      const Frame at = frame(number);
      if (!is_in_object(at.phase) || at.is_relaxed()) continue;
      const auto pairs = at.value < 0 ? Values::Parts{} : values.members(at.value);
      for (size_t i = 0; i < pairs.size(); i += 2)
        found.push_back(values.texts.bytes(static_cast<int32_t>(pairs[i])));
      for (const Item& item : at.items)
        for (const int64_t text : progresses.object_texts(item.part, item.place))
          found.push_back(values.texts.bytes(static_cast<int32_t>(text)));
    }
    return found;
  }

  // Whether an item that must differ from others, or a key beside others that are not all named,
  // is awaited.
  bool awaits_distinct(int32_t state) const {
    const Frame at = frame((*this)[state].frame);
    return at.phase == Phase::kArrayValue && has_distinct(at);
  }
  bool awaits_other_key(int32_t state) const {
    const Frame at = frame((*this)[state].frame);
    return at.phase == Phase::kObjectComma && std::ranges::any_of(at.items, [&](const Item& item) {
             return p.slot_count(item.part) > p.slots[item.part].singles;
           });
  }

  // Whether something must differ, or was spelled of what must, at some level of a frame.
  bool remembers(int32_t number) const {
    for (; number >= 0; number = frame(number).parent) {
      const Frame at = frame(number);
      if (at.is_relaxed()) return false;
      if (at.text >= 0 || at.value >= 0) return true;
      for (const Item& item : at.items)
        if (is_in_array(at.phase)    ? p.array_distinct[item.part]
            : is_in_object(at.phase) ? p.object_distinct[item.part]
                                     : false)
          return true;
    }
    return false;
  }

 private:
  static constexpr int64_t kMostNumbers = 4096;  // beginnings of raw texts that are tried

  bool leads_on(int32_t state) {
    if ((*this)[state].lead == Lead::kUnknown && !settled(state)) search(state);
    return (*this)[state].lead != Lead::kNowhere;
  }

  // Whether it is known that a state leads on, or can be told from what is spelled.
  bool settled(int32_t state) {
    if ((*this)[state].lead == Lead::kUnknown && is_apart((*this)[state].frame))
      (*this)[state].lead = Lead::kFree;
    return (*this)[state].lead > Lead::kNowhere;
  }

  // Tries the ways on from a state, until one of them is told apart.
  void search(int32_t state) {
    struct Place {
      int32_t state, before;  // and the place of the one before
    };
    std::vector<Place> places{{state, -1}};
    std::vector<int32_t> seen{state}, open{0};
    while (!open.empty()) {
      const int32_t from = open.back();
      open.pop_back();
      const bool is_found = each_next(places[from].state, [&](int32_t next) {
        if ((*this)[next].lead == Lead::kNowhere) return false;
        if (settled(next)) return true;
        const auto known = std::ranges::lower_bound(seen, next);
        if (known != seen.end() && *known == next) return false;
        seen.insert(known, next);
        open.push_back(static_cast<int32_t>(places.size()));
        places.push_back({next, from});
        return false;
      });
      if (!is_found) continue;
      for (int32_t at = from; at >= 0; at = places[at].before)
        (*this)[places[at].state].lead = Lead::kOn;
      return;
    }
    for (const int32_t one : seen) (*this)[one].lead = Lead::kNowhere;
  }

  // Visits states behind one, of each value that can come a spelling, until `visit` is satisfied.
  template <class Visit>
  bool each_next(int32_t state, Visit&& visit) {
    const Phase phase = frame((*this)[state].frame).phase;
    if (phase == Phase::kRaw) return each_raw(state, visit);
    bool has_next = false;
    for (int32_t i = 0; i < 256; ++i) {
      const int32_t byte = (i + 'a') & 0xFF;
      if (byte == ' ' && !is_spelled(phase)) continue;
      if (byte == '\n' || byte == '\t' || byte == '\r' || !may_come(state, byte)) continue;
      const int32_t next = nearly_step(state, byte);
      if (next < 0) continue;
      has_next = true;
      if (visit(next)) return true;
    }
    // White space where nothing else comes.
    for (const char byte : {' ', '\n', '\t', '\r'}) {
      const int32_t next = has_next ? -1 : nearly_step(state, byte);
      if (next >= 0 && visit(next)) return true;
    }
    return false;
  }

  // Visits the states behind the values that a raw text can become, shorter texts first; of several
  // spellings of a beginning one goes on. Of very many some may be left out: what can be reached from a text is then among what can be from its
  // beginnings, so that these lead on no less.
  template <class Visit>
  bool each_raw(int32_t state, Visit& visit) {
    const Style style = (*this)[state].lexical.style();
    std::deque<int32_t> open{(*this)[state].frame};
    std::unordered_set<int64_t> begun, seen;
    for (int64_t tried = 0; !open.empty() && tried < kMostNumbers; ++tried) {
      const int32_t number = open.front(), text = frame(number).text;
      open.pop_front();
      ++work_.spent;
      if (!begun.insert(beginning_of(number)).second) continue;
      const int32_t behind = closed(number);
      if (behind >= 0 && seen.insert(text < 0 ? -1 : values.raw(text)).second &&
          visit(state_of(behind, between(style))))
        return true;
      for (const char byte : std::string_view("1234567890.-+eEaflnrstu")) {
        const int32_t next = raw_byte(number, byte);
        if (next >= 0) open.push_back(next);
      }
    }
    return false;
  }

  // What the values behind a beginning of a raw text depend on.
  int64_t beginning_of(int32_t number) {
    const Frame at = frame(number);
    if (at.text < 0) return pack(number, -1);
    const int32_t text = values.texts.of(without_spelling(values.texts.bytes(at.text)));
    begin_frame(Phase::kRaw, at.parent, text, at.value);
    for (const Item& item : at.items) add(item);
    return end_frame();
  }

  static bool is_spelled(Phase phase) { return phase == Phase::kKey || phase == Phase::kString; }

  // Whether by some alternatives all that stands open is told apart from what it must differ from.
  bool is_apart(int32_t number) {
    chain_.clear();
    live_.clear();
    if (repeats_key(frame(number))) return false;
    for (bool is_first = true; number >= 0; is_first = false) {
      const Frame at = frame(number);
      next_live_.clear();
      for (const Item& item : at.items) {
        if (!is_first && std::ranges::find(live_, item.content) == live_.end()) continue;
        if (!is_distinct(at.phase, item) || !may_be_used(item)) next_live_.push_back(item.value);
      }
      if (next_live_.empty()) return false;
      live_.swap(next_live_);
      chain_.push_back(number);
      number = at.parent;
    }
    return true;
  }

  // Whether a text is the beginning of one that was used; not, where bytes are collected.
  bool may_become_text(int32_t text, int32_t used) const {
    if (!used_bytes_) return values.texts.is_prefix(text, used);
    const int32_t byte = values.texts.byte_behind(text, used);
    if (byte >= 0) used_bytes_->set(byte);
    return false;
  }

  // Whether a key begins like one that may not come again, or one is awaited.
  bool repeats_key(const Frame& at) const {
    if (at.is_relaxed() || (at.phase != Phase::kKey && at.phase != Phase::kObjectComma)) return false;
    const int32_t begun = std::max(at.text, 0);
    const auto is_begun = [&](int64_t text) {
      return may_become_text(begun, static_cast<int32_t>(text));
    };
    if (at.value >= 0) {
      const auto pairs = values.members(at.value);
      for (size_t i = 0; i < pairs.size(); i += 2)
        if (is_begun(pairs[i])) return true;
    }
    return std::ranges::any_of(at.items, [&](const Item& item) {
      return std::ranges::any_of(progresses.object_texts(item.part, item.place), is_begun);
    });
  }

  // Whether the element that stands open, which is what the chain holds, can become one of before.
  bool may_be_used(const Item& array) const {
    return std::ranges::any_of(progresses.array_values(array.part, array.place), [&](int64_t used) {
      return may_become(static_cast<int32_t>(used), chain_.size());
    });
  }

  // Whether what stands open at the first so many levels of the chain can become a value.
  bool may_become(int32_t value, size_t levels) const {
    if (levels == 0) return true;
    const Frame at = frame(chain_[levels - 1]);
    const Values::Kind kind = values.kind(value);
    if (at.phase == Phase::kString)
      return kind == Values::kString && may_become_text(at.text, values.text(value));
    if (at.phase == Phase::kRaw) return kind == Values::kRaw && values.may_become(at.text, value);
    if (is_in_array(at.phase)) {
      if (kind != Values::kArray) return false;
      const auto begun = values.elements(at.value), all = values.elements(value);
      if (begun.size() > all.size() || !std::ranges::equal(begun, all.first(begun.size())))
        return false;
      if (at.phase != Phase::kArrayValue) return true;
      return begun.size() < all.size() &&
             may_become(static_cast<int32_t>(all[begun.size()]), levels - 1);
    }
    return kind == Values::kObject && values.has_members(value, at.value) &&
           member_may_become(at, value, levels);
  }

  // The same of an object, whose members that stand there are those of the value.
  bool member_may_become(const Frame& at, int32_t value, size_t levels) const {
    const auto all = values.members(value), begun = values.members(at.value);
    if (at.phase == Phase::kObjectComma) return all.size() > begun.size();
    if (at.phase == Phase::kKey) {
      for (size_t i = 0; i < all.size(); i += 2) {
        const auto key = static_cast<int32_t>(all[i]);
        if (values.value_of(at.value, key) < 0 && may_become_text(at.text, key)) return true;
      }
      return false;
    }
    if (at.phase != Phase::kObjectColon && at.phase != Phase::kObjectValue) return true;
    const int32_t member = values.value_of(value, values.awaiting(at.value));
    return member >= 0 && may_become(member, levels - 1);
  }

  Table relaxed_{&memory_};  // frames by frames
  // Of the question under way: frames from the innermost out, values by which alternatives go on.
  std::vector<int32_t> chain_, live_, next_live_;
  std::bitset<256>* used_bytes_ = nullptr;  // where they are collected
};

}  // namespace cdec::schemas
