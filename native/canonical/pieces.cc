// Texts cut where their fixed parts begin and end (core/combine/templated.py).
//
// A row is a state of the constraint behind some bytes; which bytes may follow it, and to where, is
// told when it is first needed. Where one byte alone may follow, and no text may end, it is fixed. A
// fixed part begins at a row whose next character is fixed as a whole, ends before the first that is
// not, and has tokens that are told. All other tokens are read off the vocabulary's trie: none has a
// row within it where a fixed part begins.
#include <mutex>

#include "bits.h"
#include "guarded.h"
#include "kept_masks.h"

namespace cdec::canonical {

constexpr int32_t kDeadRow = -1, kDoneRow = -2, kUntoldRow = -3;

// What has to be told before a call can go on: rows, or the tokens of a part; by states.
struct Wanted {
  enum Kind : int64_t { kRows, kPart };
  Kind kind = kRows;
  std::vector<int64_t> states;
};

class Pieces {
 public:
  Pieces(const cdec_token_trie &trie, const cdec_pieces_settings &settings)
      : trie_(trie),
        s_(settings),
        masks_(settings.words, settings.most_masks) {
    int32_t deepest = 0;
    for (int64_t i = 0; i < trie.depth.size; ++i) deepest = std::max(deepest, trie.depth[i]);
    path_.assign(deepest + 1, kDeadRow);
  }

  int64_t number(int64_t inner) {
    const int64_t known = row_of_.find(inner);
    if (known != Table::kAbsent) return rows_[known].state;
    const auto row = static_cast<int32_t>(rows_.size());
    rows_.push_back({.inner = inner, .state = size()});
    states_.push_back({row, 0});
    row_of_.set(inner, row);
    return rows_[row].state;
  }
  int64_t size() const { return static_cast<int64_t>(states_.size()); }
  int64_t words() const { return s_.words; }
  bool holds(int64_t state) const { return 0 <= state && state < size(); }
  // The constraint's state where that of a text lies, or where its part begins.
  int64_t inner(int64_t state) const { return rows_[states_[state].row].inner; }

  void tell_row(int64_t state, const int64_t *after, bool may_end);
  void tell_part(int64_t state, cdec_i32 tokens);
  // The bytes of the part that begins at a state; false where something has to be told.
  bool part(int64_t state, std::vector<uint8_t> &bytes);
  bool fill(int64_t state, int32_t *mask);
  bool step(int64_t state, int64_t token, int64_t &after);
  // The state behind a byte, wherever parts begin; and whether one begins at a state.
  bool follow(int64_t state, uint8_t byte, int64_t &after);
  bool begins(int64_t state, bool &begins);
  bool complete(int64_t state, bool &may_end);
  int64_t bytes() const {
    return masks_.bytes() + row_of_.bytes() +
           static_cast<int64_t>(rows_.capacity() * sizeof(Row) + states_.capacity() * sizeof(State) +
                                pool_.capacity() * 4 + part_tokens_.capacity() * 4);
  }
  const Wanted &wanted() const { return wanted_; }

  std::mutex mutex;

 private:
  static constexpr int kDense = 24;  // bytes that may follow a row from which on it has a column each
  enum Verdict : uint8_t { kUnknown, kNo, kYes };
  struct Row {
    int64_t inner, state;
    int64_t next = -1;  // in the pool: 256 rows, or pairs of a byte and a row; -1: untold
    int16_t count = 0;
    bool may_end = false;
    Verdict is_border = kUnknown;
    int64_t tokens = -1, first_state = -1;  // of its part
    int32_t token_count = 0, end = kUntoldRow;
    int64_t asked_at = 0;  // the call that wanted it
  };
  struct State {
    int32_t row, at;  // tokens of the part that begins at the row
  };

  bool is_told(int32_t row) const { return rows_[row].next >= 0; }
  int32_t after(int32_t row, uint8_t byte) const {
    const Row &r = rows_[row];
    if (r.count > kDense) return pool_[r.next + byte];
    for (int64_t i = 0; i < r.count; ++i)
      if (pool_[r.next + 2 * i] == byte) return pool_[r.next + 2 * i + 1];
    return kDeadRow;
  }
  // The only byte that may follow a row; -1 where there are others, or a text may end.
  int fixed_byte(int32_t row) const {
    const Row &r = rows_[row];
    return r.count == 1 && !r.may_end ? pool_[r.next] : -1;
  }
  bool want(int32_t row) {
    wanted_.kind = Wanted::kRows;
    if (rows_[row].asked_at != asked_at_) wanted_.states.push_back(rows_[row].state);
    rows_[row].asked_at = asked_at_;
    return false;
  }
  void want_nothing() {
    wanted_.states.clear();
    ++asked_at_;
  }
  // Bytes of the character that a byte begins; 0 where it goes on with one.
  static int length_of(int byte) {
    return byte < 0x80 ? 1 : byte < 0xC0 ? 0 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
  }
  bool character(int32_t row, int32_t &end, std::vector<uint8_t> *bytes);
  bool border(int32_t row, bool &is_border);
  bool ready(int32_t row, bool &is_border);
  int64_t state_of(int32_t row) const { return row < 0 ? int64_t{row} : rows_[row].state; }

  const cdec_token_trie &trie_;
  const cdec_pieces_settings s_;
  std::vector<Row> rows_;
  std::vector<State> states_;
  std::vector<int32_t> pool_, part_tokens_;
  Table row_of_{std::pmr::get_default_resource()};  // state of the constraint -> row
  KeptMasks masks_;
  std::vector<int32_t> path_;  // rows by depth in the trie
  Wanted wanted_;
  int64_t asked_at_ = 0;  // number of the call
};

void Pieces::tell_row(int64_t state, const int64_t *after, bool may_end) {
  const int32_t row = states_[state].row;
  if (is_told(row)) return;
  int16_t count = 0;
  for (int byte = 0; byte < 256; ++byte) count += after[byte] != CDEC_DEAD;
  const auto next = static_cast<int64_t>(pool_.size());
  if (count > kDense) pool_.resize(pool_.size() + 256, kDeadRow);
  for (int byte = 0; byte < 256; ++byte) {
    if (after[byte] == CDEC_DEAD) continue;
    int32_t to = kDoneRow;
    if (after[byte] != CDEC_DONE) to = states_[number(after[byte])].row;
    if (count > kDense)
      pool_[next + byte] = to;
    else
      pool_.insert(pool_.end(), {byte, to});
  }
  Row &r = rows_[row];
  r.next = next, r.count = count, r.may_end = may_end;
}

// Finds where the whole character ends that is fixed at a row, kUntoldRow for none; false where
// something has to be told.
bool Pieces::character(int32_t row, int32_t &end, std::vector<uint8_t> *bytes) {
  end = kUntoldRow;
  if (!is_told(row)) return want(row);
  const int first = fixed_byte(row), length = first < 0 ? 0 : length_of(first);
  if (length == 0) return true;
  const size_t before = bytes ? bytes->size() : 0;
  int32_t at = row;
  for (int i = 0; i < length; ++i) {
    if (at < 0) break;  // a text that is no UTF-8 ends itself
    if (!is_told(at)) return want(at);
    const int byte = fixed_byte(at);
    if (byte < 0) {
      if (bytes) bytes->resize(before);
      return true;
    }
    if (bytes) bytes->push_back(static_cast<uint8_t>(byte));
    at = after(at, static_cast<uint8_t>(byte));
  }
  end = at;
  return true;
}

bool Pieces::border(int32_t row, bool &is_border) {
  if (rows_[row].is_border == kUnknown) {
    int32_t end;
    if (!character(row, end, nullptr)) return false;
    rows_[row].is_border = end == kUntoldRow ? kNo : kYes;
  }
  is_border = rows_[row].is_border == kYes;
  return true;
}

bool Pieces::part(int64_t state, std::vector<uint8_t> &bytes) {
  bytes.clear();
  want_nothing();
  int32_t at = states_[state].row, end = kUntoldRow;
  while (at >= 0) {
    if (!character(at, end, &bytes)) return false;
    if (end == kUntoldRow) break;
    at = end;
  }
  rows_[states_[state].row].end = at;
  return true;
}

void Pieces::tell_part(int64_t state, cdec_i32 tokens) {
  Row &r = rows_[states_[state].row];
  if (r.tokens >= 0) return;
  r.tokens = static_cast<int64_t>(part_tokens_.size());
  r.token_count = static_cast<int32_t>(tokens.size);
  r.first_state = size();
  part_tokens_.insert(part_tokens_.end(), tokens.at, tokens.at + tokens.size);
  for (int32_t at = 1; at < r.token_count; ++at) states_.push_back({states_[state].row, at});
}

// Sees that a row is told, and the tokens of the part that begins there, if one does.
bool Pieces::ready(int32_t row, bool &is_border) {
  want_nothing();
  if (!is_told(row)) return want(row);
  if (!border(row, is_border)) return false;
  if (!is_border || rows_[row].tokens >= 0) return true;
  wanted_.kind = Wanted::kPart;
  wanted_.states.push_back(rows_[row].state);
  return false;
}

bool Pieces::fill(int64_t state, int32_t *mask) {
  if (const int32_t *known = masks_.find(state)) {
    std::copy_n(known, s_.words, mask);
    return true;
  }
  const auto [start, at] = states_[state];
  bool is_border = false;
  if (!ready(start, is_border)) return false;
  std::fill_n(mask, s_.words, 0);
  auto *words = reinterpret_cast<uint32_t *>(mask);
  if (is_border) {
    const Row &r = rows_[start];
    if (at < r.token_count) set_bit(words, part_tokens_[r.tokens + at]);
    return true;
  }
  if (rows_[start].may_end) set_bits(words, s_.words, s_.end_ids);
  path_[0] = start;
  const int64_t nodes = trie_.node_byte.size;
  for (int64_t node = 0; node < nodes;) {
    const int32_t depth = trie_.depth[node], next = trie_.skip[node];
    const int32_t to = after(path_[depth - 1], trie_.node_byte[node]);
    if (to == kDeadRow) {
      node = next;
      continue;
    }
    for (int32_t i = trie_.token_offsets[node]; i < trie_.token_offsets[node + 1]; ++i)
      if (const int64_t token = trie_.token_ids[i]; token < 32 * s_.words) set_bit(words, token);
    bool is_within = true;
    if (to == kDoneRow || next == node + 1 || !border(to, is_within) || is_within) {
      node = next;
      continue;
    }
    path_[depth] = to;
    ++node;
  }
  if (!wanted_.states.empty()) return false;
  if (int32_t *kept = masks_.add(state)) std::copy_n(mask, s_.words, kept);
  return true;
}

bool Pieces::step(int64_t state, int64_t token, int64_t &behind) {
  behind = CDEC_DEAD;
  const auto [start, at] = states_[state];
  bool is_border = false;
  if (!ready(start, is_border)) return false;
  if (is_border) {
    const Row &r = rows_[start];
    if (at < r.token_count && token == part_tokens_[r.tokens + at])
      behind = at + 1 < r.token_count ? r.first_state + at : state_of(r.end);
    return true;
  }
  if (contains(s_.end_ids, token)) {
    if (rows_[start].may_end) behind = CDEC_DONE;
    return true;
  }
  if (token < 0 || token + 1 >= s_.byte_offsets.size || token >= 32 * s_.words) return true;
  const int64_t first = s_.byte_offsets[token], stop = s_.byte_offsets[token + 1];
  int32_t row = start;
  for (int64_t i = first; i < stop; ++i) {
    bool is_within = false;
    if (row < 0) return true;
    if (i > first) {
      if (!border(row, is_within)) return false;
      if (is_within) return true;
    }
    row = after(row, s_.flat_bytes[i]);
    if (row == kDeadRow) return true;
  }
  if (first < stop) behind = state_of(row);
  return true;
}

bool Pieces::follow(int64_t state, uint8_t byte, int64_t &behind) {
  const int32_t row = states_[state].row;
  want_nothing();
  if (!is_told(row)) return want(row);
  behind = state_of(after(row, byte));
  return true;
}

bool Pieces::begins(int64_t state, bool &begins) {
  want_nothing();
  return border(states_[state].row, begins);
}

bool Pieces::complete(int64_t state, bool &may_end) {
  const auto [row, at] = states_[state];
  may_end = false;
  if (at > 0) return true;
  want_nothing();
  if (!is_told(row)) return want(row);
  may_end = rows_[row].may_end;
  return true;
}

}  // namespace cdec::canonical

using namespace cdec::canonical;

struct cdec_pieces : Pieces {
  using Pieces::Pieces;
};

namespace {

// Does rows of a call: how many are done, and what has to be told for the next: its kind, how many
// states, and these, as far as there is room.
template <class Row>
int64_t rows(cdec_pieces *pieces, int64_t count, cdec_i64_out needed, Row &&row) {
  const std::lock_guard lock(pieces->mutex);
  return cdec::guarded([&]() -> int64_t {
    for (int64_t i = 0; i < count; ++i) {
      if (row(i)) continue;
      const Wanted &wanted = pieces->wanted();
      const auto size = static_cast<int64_t>(wanted.states.size());
      const int64_t written = std::min(size, needed.size - 2);
      needed[0] = wanted.kind, needed[1] = written;
      std::copy_n(wanted.states.data(), written, needed.at + 2);
      return i;
    }
    return count;
  });
}

bool has_room(cdec_i64_out needed) { return needed.size > 2; }

}  // namespace

extern "C" {

cdec_pieces *cdec_pieces_make(const cdec_token_trie *tokens, const cdec_pieces_settings *settings) {
  return cdec::made<cdec_pieces>(*tokens, *settings);
}

void cdec_pieces_free(cdec_pieces *pieces) { delete pieces; }

int64_t cdec_pieces_number(cdec_pieces *pieces, int64_t inner) {
  const std::lock_guard lock(pieces->mutex);
  return cdec::guarded([&]() -> int64_t { return inner < 0 ? -1 : pieces->number(inner); });
}

int64_t cdec_pieces_read(cdec_pieces *pieces, cdec_i64 states, cdec_i64_out inner) {
  const std::lock_guard lock(pieces->mutex);
  for (int64_t i = 0; i < states.size; ++i)
    inner[i] = pieces->holds(states[i]) ? pieces->inner(states[i]) : CDEC_DEAD;
  return 0;
}

int64_t cdec_pieces_tell_rows(cdec_pieces *pieces, cdec_i64 states, cdec_i64_rows after,
                              cdec_bool may_end) {
  if (after.width != 256) return -1;
  const std::lock_guard lock(pieces->mutex);
  return cdec::guarded([&]() -> int64_t {
    for (int64_t i = 0; i < states.size; ++i)
      if (pieces->holds(states[i])) pieces->tell_row(states[i], after[i], may_end[i]);
    return 0;
  });
}

int64_t cdec_pieces_part(cdec_pieces *pieces, int64_t state, cdec_u8_out bytes,
                         cdec_i64_out needed) {
  std::vector<uint8_t> found;
  if (!has_room(needed)) return -1;
  const int64_t done = rows(pieces, 1, needed, [&](int64_t) {
    return !pieces->holds(state) || pieces->part(state, found);
  });
  if (done < 0) return done;
  const auto size = static_cast<int64_t>(found.size());
  if (done == 0) return -1;
  std::copy_n(found.data(), std::min(size, bytes.size), bytes.at);
  return size;
}

int64_t cdec_pieces_tell_part(cdec_pieces *pieces, int64_t state, cdec_i32 tokens) {
  const std::lock_guard lock(pieces->mutex);
  return cdec::guarded([&]() -> int64_t {
    const auto is_token = [&](int64_t i) { return 0 <= tokens[i] && tokens[i] < 32 * pieces->words(); };
    for (int64_t i = 0; i < tokens.size; ++i)
      if (!is_token(i)) return -1;
    if (pieces->holds(state)) pieces->tell_part(state, tokens);
    return 0;
  });
}

int64_t cdec_pieces_fill_mask(cdec_pieces *pieces, cdec_i64 states, cdec_i32_rows_out mask,
                              cdec_i64_out needed) {
  if (mask.width != pieces->words() || !has_room(needed)) return -1;
  return rows(pieces, states.size, needed, [&](int64_t i) {
    if (pieces->holds(states[i])) return pieces->fill(states[i], mask[i]);
    std::fill_n(mask[i], mask.width, 0);
    return true;
  });
}

int64_t cdec_pieces_advance(cdec_pieces *pieces, cdec_i64 states, cdec_i64 tokens, cdec_i64_out out,
                            cdec_i64_out needed) {
  if (!has_room(needed)) return -1;
  return rows(pieces, states.size, needed, [&](int64_t i) {
    out[i] = CDEC_DEAD;
    return !pieces->holds(states[i]) || pieces->step(states[i], tokens[i], out[i]);
  });
}

int64_t cdec_pieces_follow(cdec_pieces *pieces, cdec_i64 states, cdec_u8 bytes, cdec_i64_out out,
                           cdec_i64_out needed) {
  if (!has_room(needed)) return -1;
  return rows(pieces, states.size, needed, [&](int64_t i) {
    out[i] = CDEC_DEAD;
    return !pieces->holds(states[i]) || pieces->follow(states[i], bytes[i], out[i]);
  });
}

int64_t cdec_pieces_begins(cdec_pieces *pieces, cdec_i64 states, cdec_bool_out out,
                           cdec_i64_out needed) {
  if (!has_room(needed)) return -1;
  return rows(pieces, states.size, needed, [&](int64_t i) {
    bool found = false;
    const bool is_known = !pieces->holds(states[i]) || pieces->begins(states[i], found);
    out[i] = found;
    return is_known;
  });
}

int64_t cdec_pieces_complete(cdec_pieces *pieces, cdec_i64 states, cdec_bool_out out,
                             cdec_i64_out needed) {
  if (!has_room(needed)) return -1;
  return rows(pieces, states.size, needed, [&](int64_t i) {
    bool found = states[i] == CDEC_DONE;
    const bool is_known = !pieces->holds(states[i]) || pieces->complete(states[i], found);
    out[i] = found;
    return is_known;
  });
}

int64_t cdec_pieces_statistics(cdec_pieces *pieces, cdec_i64_out out) {
  const std::lock_guard lock(pieces->mutex);
  const int64_t found[] = {pieces->size(), pieces->bytes()};
  std::copy_n(found, std::min<int64_t>(out.size, 2), out.at);
  return 0;
}

}  // extern "C"
