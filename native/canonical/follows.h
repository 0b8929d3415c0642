// Which tokens byte pair encoding leaves side by side within a pre-token (core/spelling/merges.py).
#pragma once

#include <algorithm>
#include <vector>

#include "bits.h"
#include "kept_masks.h"

namespace cdec::canonical {

class Follows {
 public:
  explicit Follows(const cdec_spelling &spelling)
      : s_(spelling),
        size_(spelling.is_made.size),
        rows_(spelling.words,
              std::max<int64_t>(kRowBytes / std::max<int64_t>(4 * spelling.words, 1), 2)) {
    merges_.reserve(s_.pairs.size);
    for (int64_t i = 0; i < s_.pairs.size; ++i) merges_.set(usable(s_.pairs[i]), i);
    all_.assign(spelling.words, 0);
    for (int64_t token = 0; token < size_; ++token)
      if (s_.is_made[token] && token >> 5 < spelling.words) set_bit(all_.data(), token);
  }

  // Whether the right one of two tokens may follow the left one.
  bool allows(int32_t left, int32_t right) {
    if (!is_made(left) || !is_made(right)) return false;
    if (const int32_t *row = rows_.find(left))
      return has_bit(reinterpret_cast<const uint32_t *>(row), s_.words, right);
    if (s_.is_tangled[left] || s_.is_tangled[right]) return stay_apart(left, right);
    // The symbol at the end of the left token stands there until its parent is made; that at the
    // begin of the right one as well. They merge if that comes first.
    int64_t until_left = INT64_MAX;
    for (int32_t a = left; a >= 0; a = s_.rights[a]) {
      const int64_t since_left = s_.made_at[a];
      int64_t until_right = INT64_MAX;
      for (int32_t b = right; b >= 0; b = s_.lefts[b]) {
        const int64_t since_right = s_.made_at[b];
        const int64_t merge = merges_.find(usable(pack(a, b)));
        if (merge != Table::kAbsent) {
          const int64_t rank = s_.ranks[merge];
          if (rank < until_left && since_right < until_left &&
              until_right >= std::max(rank, since_left))
            return false;
        }
        until_right = since_right;
      }
      until_left = since_left;
    }
    return true;
  }

  // The packed mask of the tokens that may follow one; kept.
  const int32_t *row(int32_t token) {
    if (const int32_t *known = rows_.find(token)) return known;
    int32_t *row = rows_.add(token);
    if (!is_made(token)) {
      std::fill_n(row, s_.words, 0);
      return row;
    }
    std::copy_n(reinterpret_cast<const int32_t *>(all_.data()), s_.words, row);
    if (!s_.is_tangled[token]) {
      spine_.clear(), ranks_.clear();
      for (int32_t at = token; at >= 0; at = s_.rights[at])
        spine_.push_back(at), ranks_.push_back(s_.made_at[at]);
      const auto size = static_cast<int64_t>(spine_.size());
      cdec_follow_row(s_.pairs, s_.ranks, {spine_.data(), size}, {ranks_.data(), size}, s_.place,
                      s_.token, s_.stop, s_.rank, {row, s_.words});
      for (int64_t i = 0; i < s_.tangled.size; ++i) clear_unless_apart(row, token, s_.tangled[i]);
    } else {
      for (int64_t right = 0; right < size_; ++right)
        if (s_.is_made[right]) clear_unless_apart(row, token, static_cast<int32_t>(right));
    }
    return row;
  }

  int64_t bytes() const { return rows_.bytes() + merges_.bytes(); }

 private:
  static constexpr int64_t kRowBytes = int64_t{64} << 20;

  bool is_made(int32_t token) const { return 0 <= token && token < size_ && s_.is_made[token]; }

  void clear_unless_apart(int32_t *row, int32_t left, int32_t right) {
    if (right >> 5 < s_.words && !stay_apart(left, right))
      row[right >> 5] &= ~static_cast<int32_t>(1u << (right & 31));
  }

  // Merges both out.
  bool stay_apart(int32_t left, int32_t right) {
    symbols_.clear();
    for (const int32_t token : {left, right})
      for (int64_t i = s_.symbol_starts[token]; i < s_.symbol_starts[token + 1]; ++i)
        symbols_.push_back(s_.symbols[i]);
    const auto size = static_cast<int64_t>(symbols_.size());
    const int64_t starts[] = {0, size};
    int32_t length = 0, last[4];
    cdec_merge_words(s_.pairs, s_.ranks, s_.made, {symbols_.data(), size}, {starts, 2},
                     {&length, 1}, {last, 1, 4});
    return length == 2 && symbols_[0] == left && symbols_[1] == right;
  }

  const cdec_spelling s_;
  const int64_t size_;  // tokens
  KeptMasks rows_;
  Table merges_{std::pmr::get_default_resource()};  // pair -> merge
  std::vector<uint32_t> all_;                       // tokens that merges make
  std::vector<int32_t> spine_, ranks_, symbols_;
};

}  // namespace cdec::canonical
