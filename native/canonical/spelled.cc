// The states of what a tokenizer writes.
#include "spelled.h"

#include "guarded.h"

namespace cdec::canonical {

Spelled::Spelled(const cdec_spelling &spelling)
    : s_(spelling),
      classes_(spelling.first.size),
      follows_(spelling),
      told_masks_(spelling.words, kToldMasks),
      tails_(spelling.words, 2 * kToldMasks),
      place_rows_(spelling.words,
                  std::max<int64_t>(kPlaceBytes / std::max<int64_t>(4 * spelling.words, 1), 2)),
      row_(spelling.words) {}

int64_t Spelled::plain(std::span<const int32_t> places, int64_t tail) {
  const int64_t set = sets_.intern(places);
  int64_t known = context_of_.find(pack(set, tail));
  if (known == Table::kAbsent) {
    bool may_end = false;
    for (const int32_t place : places) may_end |= place < 0 || s_.may_end[place];
    known = static_cast<int64_t>(contexts_.size());
    contexts_.push_back({set, tail, may_end});
    context_of_.set(pack(set, tail), known);
  }
  return known;
}

int64_t Spelled::told(bool may_end) {
  contexts_.push_back({-1, -1, may_end});
  return static_cast<int64_t>(contexts_.size()) - 1;
}

int64_t Spelled::number(int64_t context, int64_t token) {
  const int64_t key = pack(context, token + 1), known = state_of_.find(key);
  if (known != Table::kAbsent) return known;
  states_.push_back({static_cast<int32_t>(context), static_cast<int32_t>(token)});
  state_of_.set(key, size() - 1);
  return size() - 1;
}

int64_t Spelled::read(int64_t state, cdec_i64_out out) const {
  const auto [context, token] = states_[state];
  const Context &at = contexts_[context];
  const int64_t head[] = {context, token, at.tail};
  for (int64_t i = 0; i < std::min<int64_t>(out.size, 3); ++i) out[i] = head[i];
  if (at.places < 0) return -1;
  const std::span<const int32_t> places = sets_[at.places];
  const auto count = static_cast<int64_t>(places.size());
  for (int64_t i = 0; i < std::min(count, out.size - 3); ++i) out[3 + i] = places[i];
  return count;
}

void Spelled::tell_step(int64_t state, int64_t token, int64_t after) {
  if (static_cast<int64_t>(steps_.size()) >= kMostSteps) steps_.clear();
  steps_.set(pack(state, token), after);
}

bool Spelled::tell_mask(int64_t state, cdec_i32 mask) {
  if (mask.size != s_.words) return false;
  if (!told_masks_.find(state)) std::copy_n(mask.at, mask.size, told_masks_.add(state));
  return true;
}

bool Spelled::tell_tail(int64_t tail, cdec_i32 kept, cdec_i32 breaks) {
  if (kept.size != s_.words || breaks.size != s_.words || tail < 0) return false;
  if (!tails_.find(2 * tail)) std::copy_n(kept.at, kept.size, tails_.add(2 * tail));
  if (!tails_.find(2 * tail + 1)) std::copy_n(breaks.at, breaks.size, tails_.add(2 * tail + 1));
  return true;
}

int64_t Spelled::step(int64_t state, int64_t token, Needed &needed) {
  const auto [context, last] = states_[state];
  const Context at = contexts_[context];
  if (contains(s_.end_ids, token)) return at.may_end ? CDEC_DONE : CDEC_DEAD;
  if (token < 0 || token >= s_.width) return CDEC_DEAD;
  uint8_t kind = kTold;
  if (at.places >= 0) kind = token < s_.kind.size ? s_.kind[token] : uint8_t{kNever};
  if (kind == kNever) return CDEC_DEAD;
  if (kind == kTold) {
    const int64_t known = steps_.find(pack(state, token));
    if (known != Table::kAbsent) return known;
    needed = {kStep, state, token};
    return kUntold;
  }
  const auto id = static_cast<int32_t>(token);
  const int64_t behind = land(at.places, s_.shape_of[id], last >= 0 && follows_.allows(last, id));
  if (behind < 0) return CDEC_DEAD;
  const int64_t known = context_of_.find(pack(behind, s_.tail_of[id]));
  if (known != Table::kAbsent) return number(known, token);
  landed_.assign(sets_[behind].begin(), sets_[behind].end());
  return number(plain(landed_, s_.tail_of[id]), token);
}

// The set of the places behind a token of a shape; -1 where there is none.
int64_t Spelled::land(int64_t places, int32_t shape, bool follows) {
  const int64_t key = pack(places, 2 * static_cast<int64_t>(shape) + follows);
  int64_t known = landings_.find(key);
  if (known != Table::kAbsent) return known;
  std::vector<int32_t> found;
  const std::vector<int32_t> set(sets_[places].begin(), sets_[places].end());
  for (const int32_t place : set)
    for (const bool across : {false, true})
      if (across || (follows && place >= 0))
        each_first(place, across, [&](const int32_t *first) { land_by(first, shape, found); });
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  known = found.empty() ? -1 : sets_.intern(std::span<const int32_t>(found));
  landings_.set(key, known);
  return known;
}

void Spelled::land_by(const int32_t *first, int32_t shape, std::vector<int32_t> &found) const {
  const int64_t begin = s_.shape_offsets[shape], end = s_.shape_offsets[shape + 1];
  if (begin == end) return;
  int32_t at = first[s_.shape_classes[begin]];
  for (int64_t i = begin + 1; i < end && at >= 0; ++i)
    at = s_.within[at * classes_ + s_.shape_classes[i]];
  if (at >= 0) found.push_back(at);
}

// Calls with the places after the first character of a token, by its class, for each guess.
template <class Visit>
void Spelled::each_first(int32_t place, bool across, Visit &&visit) {
  if (place < 0) return visit(s_.first.at);
  if (!across) return visit(s_.within.at + place * classes_);
  first_.resize(classes_);
  for (int64_t k = 0;; ++k) {
    bool is_any = false;
    for (int64_t c = 0; c < classes_; ++c) {
      const int64_t cell = place * classes_ + c, at = s_.across_offsets[cell] + k;
      const bool is_one = at < s_.across_offsets[cell + 1];
      first_[c] = is_one ? s_.across[at] : -1;
      is_any |= is_one;
    }
    if (!is_any) return;
    visit(static_cast<const int32_t *>(first_.data()));
  }
}

// Whether some character that begins like a tail may stand where classes lead to places.
bool Spelled::goes_on(const int32_t *classes, int32_t tail) const {
  for (int64_t i = s_.tail_offsets[tail]; i < s_.tail_offsets[tail + 1]; ++i)
    if (classes[s_.tail_classes[i]] >= 0) return true;
  return false;
}

// Whether a token of a shape may stand there, and a character that it begins go on.
bool Spelled::lives(const int32_t *first, int64_t shape) const {
  const int64_t begin = s_.shape_offsets[shape], end = s_.shape_offsets[shape + 1];
  const int32_t tail = s_.shape_tail[shape];
  if (begin == end) return tail >= 0 && goes_on(first, tail);
  int32_t at = first[s_.shape_classes[begin]];
  for (int64_t i = begin + 1; i < end && at >= 0; ++i)
    at = s_.within[at * classes_ + s_.shape_classes[i]];
  return at >= 0 && (tail < 0 || goes_on(s_.within.at + at * classes_, tail));
}

// The mask of the tokens that may follow a place where no character is begun; kept.
const int32_t *Spelled::place_row(int32_t place, bool across) {
  const int64_t number = 2 * static_cast<int64_t>(place + 1) + across;
  if (const int32_t *known = place_rows_.find(number)) return known;
  const int64_t shapes = s_.shape_tail.size;
  lives_.assign(shapes, 0);
  each_first(place, across, [&](const int32_t *first) {
    for (int64_t shape = 0; shape < shapes; ++shape)
      if (!lives_[shape] && !s_.shape_lead[shape]) lives_[shape] = lives(first, shape);
  });
  int32_t *row = place_rows_.add(number);
  std::fill_n(row, s_.words, 0);
  for (int64_t token = 0; token < s_.shape_of.size; ++token)
    if (s_.shape_of[token] >= 0 && lives_[s_.shape_of[token]])
      set_bit(reinterpret_cast<uint32_t *>(row), token);
  return row;
}

bool Spelled::narrow(int64_t state, int32_t *mask, Needed &needed) {
  const auto [context, last] = states_[state];
  const Context &at = contexts_[context];
  const int64_t words = s_.words;
  if (at.places < 0) {
    const int32_t *told = told_masks_.find(state);
    if (!told) return needed = {kMask, state, 0}, false;
    for (int64_t i = 0; i < words; ++i) mask[i] &= told[i];
    return true;
  }
  const int32_t *kept = tails_.find(2 * at.tail), *breaks = tails_.find(2 * at.tail + 1);
  if (!kept || !breaks) return needed = {kTail, at.tail, 0}, false;
  const int32_t *follow = last >= 0 ? follows_.row(last) : nullptr;
  std::fill_n(row_.data(), words, 0);
  for (const int32_t place : sets_[at.places]) {
    const int32_t *across = place_row(place, true);
    for (int64_t i = 0; i < words; ++i) row_[i] |= across[i];
    if (place < 0 || !follow) continue;
    const int32_t *within = place_row(place, false);
    for (int64_t i = 0; i < words; ++i) row_[i] |= within[i] & follow[i];
  }
  const int32_t ends = at.may_end ? -1 : 0;
  for (int64_t i = 0; i < words; ++i) mask[i] &= (row_[i] & kept[i]) | (breaks[i] & ends);
  return true;
}

bool Spelled::allows_across(int64_t state, const int32_t *mask, int64_t most) {
  const Context &at = contexts_[states_[state].context];
  const int32_t *kept = at.places < 0 ? nullptr : tails_.find(2 * at.tail);
  if (!kept) return false;
  for (const int32_t place : sets_[at.places]) {
    const int32_t *across = place_row(place, true);
    int64_t count = 0;
    for (int64_t i = 0; i < s_.words && count <= most; ++i)
      count += std::popcount(static_cast<uint32_t>(mask[i] & across[i] & kept[i]));
    if (count > most) return true;
  }
  return false;
}

int64_t Spelled::bytes() const {
  return follows_.bytes() + told_masks_.bytes() + tails_.bytes() + place_rows_.bytes() +
         steps_.bytes() + landings_.bytes() + state_of_.bytes() +
         static_cast<int64_t>(states_.capacity() * sizeof(State));
}

}  // namespace cdec::canonical

using cdec::canonical::Needed;
using cdec::canonical::kUntold;

namespace {

void write(const Needed &needed, cdec_i64_out out) {
  const int64_t numbers[] = {needed.what, needed.state, needed.token};
  std::copy_n(numbers, std::min<int64_t>(out.size, 3), out.at);
}

// Does a call with a lock, which may run out of memory.
template <class Body>
int64_t locked(cdec_spelled *spelled, Body &&body) {
  const std::lock_guard lock(spelled->mutex);
  return cdec::guarded(body);
}

}  // namespace

extern "C" {

cdec_spelled *cdec_spelled_make(const cdec_spelling *spelling) {
  return spelling->words < 0 ? nullptr : cdec::made<cdec_spelled>(*spelling);
}

void cdec_spelled_free(cdec_spelled *spelled) { delete spelled; }

int64_t cdec_spelled_plain(cdec_spelled *spelled, cdec_i32 places, int64_t tail) {
  return locked(spelled, [&]() -> int64_t {
    const std::span<const int32_t> all{places.at, static_cast<size_t>(places.size)};
    return spelled->are_places(all) && tail >= 0 ? spelled->plain(all, tail) : -1;
  });
}

int64_t cdec_spelled_told(cdec_spelled *spelled, int64_t may_end) {
  return locked(spelled, [&]() -> int64_t { return spelled->told(may_end); });
}

int64_t cdec_spelled_number(cdec_spelled *spelled, int64_t context, int64_t token) {
  return locked(spelled, [&]() -> int64_t {
    return spelled->has_context(context) ? spelled->number(context, token) : -1;
  });
}

int64_t cdec_spelled_read(cdec_spelled *spelled, int64_t state, cdec_i64_out out) {
  return locked(spelled, [&]() -> int64_t {
    return spelled->holds(state) ? spelled->read(state, out) : -1;
  });
}

int64_t cdec_spelled_tell_step(cdec_spelled *spelled, int64_t state, int64_t token,
                               int64_t after) {
  return locked(spelled, [&]() -> int64_t {
    if (spelled->holds(state) && token >= 0) spelled->tell_step(state, token, after);
    return 0;
  });
}

int64_t cdec_spelled_tell_mask(cdec_spelled *spelled, int64_t state, cdec_i32 mask) {
  return locked(spelled, [&]() -> int64_t {
    return spelled->holds(state) && spelled->tell_mask(state, mask) ? 0 : -1;
  });
}

int64_t cdec_spelled_tell_tail(cdec_spelled *spelled, int64_t tail, cdec_i32 kept,
                               cdec_i32 breaks) {
  return locked(spelled,
                [&]() -> int64_t { return spelled->tell_tail(tail, kept, breaks) ? 0 : -1; });
}

int64_t cdec_spelled_fill_mask(cdec_spelled *spelled, cdec_i64 states, cdec_i32_rows_out mask,
                               cdec_i64_out needed) {
  return locked(spelled, [&]() -> int64_t {
    if (mask.width != spelled->words()) return -1;
    Needed need;
    for (int64_t i = 0; i < states.size; ++i) {
      const bool is_state = spelled->holds(states[i]);
      std::fill_n(mask[i], mask.width, is_state ? -1 : 0);
      if (!is_state || spelled->narrow(states[i], mask[i], need)) continue;
      write(need, needed);
      return i;
    }
    return states.size;
  });
}

int64_t cdec_spelled_advance(cdec_spelled *spelled, cdec_i64 states, cdec_i64 tokens,
                             cdec_i64_out out, cdec_i64_out needed) {
  return locked(spelled, [&]() -> int64_t {
    Needed need;
    for (int64_t i = 0; i < states.size; ++i) {
      out[i] = spelled->holds(states[i]) ? spelled->step(states[i], tokens[i], need) : CDEC_DEAD;
      if (out[i] != kUntold) continue;
      write(need, needed);
      return i;
    }
    return states.size;
  });
}

int64_t cdec_spelled_complete(cdec_spelled *spelled, cdec_i64 states, cdec_bool_out out) {
  return locked(spelled, [&]() -> int64_t {
    for (int64_t i = 0; i < states.size; ++i)
      out[i] = spelled->holds(states[i]) ? spelled->may_end(states[i]) : states[i] == CDEC_DONE;
    return 0;
  });
}

int64_t cdec_spelled_statistics(cdec_spelled *spelled, cdec_i64_out out) {
  return locked(spelled, [&]() -> int64_t {
    const int64_t found[] = {spelled->size(), spelled->bytes()};
    std::copy_n(found, std::min<int64_t>(out.size, 2), out.at);
    return 0;
  });
}

}  // extern "C"
