// Copies of counted repetitions: what the counts of states are, from those of what they consist of.
#include <algorithm>

#include "guarded.h"
#include "lists.h"

namespace cdec {
namespace {

constexpr int32_t kMany = INT32_MAX;
constexpr int32_t kNone = -1, kUnset = -2;

// The rows of a subset construction, whose members are items or, flagged, 2 * item + flag.
class CountedRows {
 public:
  CountedRows(cdec_i64 offsets, cdec_i32 members, const cdec_copies &items, bool is_flagged)
      : offsets_(offsets), members_(members), items_(items), is_flagged_(is_flagged),
        rows_(std::pmr::get_default_resource()) {
    for (int64_t state = 0; state < size(); ++state) rows_.intern(row(state));
  }

  int64_t size() const { return offsets_.size - 1; }
  std::span<const int32_t> row(int64_t state) const {
    return {members_.at + offsets_[state], members_.at + offsets_[state + 1]};
  }

  // Writes the counts of a state; false where its items cannot be counted together.
  bool count(int64_t state, int64_t spread, bool is_ordered, const cdec_copies &found) {
    int32_t lowest = kMany, highest = 0, lacking = kNone;
    bool clashes = false;
    for (const int32_t member : row(state)) {
      const int32_t item = member >> is_flagged_, copy = items_.copy[item];
      if (copy <= 0) continue;
      lowest = std::min(lowest, copy);
      highest = std::max(highest, copy);
      clashes |= lacking >= 0 && lacking != items_.more[item];
      lacking = items_.more[item];
    }
    if (highest == 0) return true;
    if (clashes || (lacking > 0 && lowest <= items_.cut && highest > items_.cut + spread))
      return false;
    found.copy[state] = lowest;
    found.more[state] = lacking;
    if (shift(row(state), is_ordered)) {
      const int64_t number = rows_.intern(shifted_);
      found.following[state] = number < size() ? static_cast<int32_t>(number) : kNone;
    }
    return true;
  }

 private:
  // The list that has counted one more, in `shifted_`; false where there is none.
  bool shift(std::span<const int32_t> row, bool is_ordered) {
    shifted_.assign(row.begin(), row.end());
    for (int32_t &member : shifted_) {
      const int32_t item = member >> is_flagged_;
      if (items_.copy[item] <= 0) continue;
      const int32_t beside = items_.following[item];
      if (beside < 0) return false;
      member = is_flagged_ ? beside << 1 | (member & 1) : beside;
    }
    if (!is_ordered) std::sort(shifted_.begin(), shifted_.end());
    return true;
  }

  cdec_i64 offsets_;
  cdec_i32 members_;
  const cdec_copies &items_;
  bool is_flagged_;
  Lists<int32_t> rows_;
  std::vector<int32_t> shifted_;
};

// What was known of the state that follows, and what is known now.
void note_following(int32_t &following, int32_t now) {
  if (following != now) following = following == kUnset ? now : kNone;
}

bool count_inside(cdec_i32_rows rows, int64_t n, const cdec_copies &whole) {
  for (int64_t state = n; state < rows.rows; ++state) {
    int32_t lowest = kMany;
    for (int64_t k = 0; k < rows.width; ++k) {
      const int32_t target = rows[state][k];
      if (target < 0 || whole.copy[target] <= 0) continue;
      if (lowest < kMany && whole.more[target] != whole.more[state]) return false;
      lowest = std::min(lowest, whole.copy[target]);
      whole.more[state] = whole.more[target];
    }
    whole.copy[state] = lowest < kMany ? lowest : 0;
  }
  return true;
}

// The states within characters that follow one another lie between states that do.
void follow_inside(cdec_i32_rows rows, int64_t n, const cdec_copies &whole) {
  for (int64_t i = 0; i < rows.rows; ++i) {
    // subtle: of states within characters the outer ones have the larger numbers.
    const int64_t state = i < n ? i : n + rows.rows - 1 - i;
    const int32_t beside = whole.following[state];
    if (beside < 0) continue;
    for (int64_t k = 0; k < rows.width; ++k) {
      const int32_t target = rows[state][k];
      if (target >= n && whole.copy[target] > 0)
        note_following(whole.following[target], rows[beside][k]);
    }
  }
  for (int64_t state = n; state < rows.rows; ++state)
    whole.following[state] = std::max(whole.following[state], kNone);
}

bool merge(const cdec_copies &copies, cdec_i32 number, const cdec_copies &found) {
  for (int64_t state = 0; state < number.size; ++state) {
    const int32_t merged = number[state], beside = copies.following[state];
    if (merged < 0) continue;
    int32_t &copy = found.copy[merged], &more = found.more[merged];
    if (copy >= 0 && (copy != copies.copy[state] || more != copies.more[state])) {
      if (more > 0 || copies.more[state] > 0) return false;
      copy = 0;
      found.following[merged] = kNone;
      continue;
    }
    copy = copies.copy[state];
    more = copies.more[state];
    note_following(found.following[merged], beside >= 0 ? number[beside] : kNone);
  }
  for (int64_t merged = 0; merged < found.copy.size; ++merged) {
    found.copy[merged] = std::max(found.copy[merged], 0);
    found.following[merged] = std::max(found.following[merged], kNone);
  }
  return true;
}

}  // namespace
}  // namespace cdec

extern "C" {

int64_t cdec_count_rows(cdec_i64 offsets, cdec_i32 members, const cdec_copies *items,
                        int64_t is_flagged, int64_t is_ordered, int64_t spread,
                        const cdec_copies *found) {
  return cdec::guarded([&]() -> int64_t {
    cdec::CountedRows rows(offsets, members, *items, is_flagged);
    for (int64_t state = 0; state < rows.size(); ++state)
      if (!rows.count(state, spread, is_ordered, *found)) return CDEC_CLASH;
    return 0;
  });
}

int64_t cdec_count_inside(cdec_i32_rows rows, int64_t n, const cdec_copies *whole) {
  if (!cdec::count_inside(rows, n, *whole)) return CDEC_CLASH;
  cdec::follow_inside(rows, n, *whole);
  return 0;
}

int64_t cdec_merge_copies(const cdec_copies *copies, cdec_i32 number, const cdec_copies *found) {
  return cdec::merge(*copies, number, *found) ? 0 : CDEC_CLASH;
}

}  // extern "C"
