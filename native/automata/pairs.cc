// Constructions whose states are pairs: two automata at once, and pending matches.
#include <array>

#include "cdec_native.h"
#include "construction.h"
#include "guarded.h"
#include "table.h"

namespace {

class Product : public cdec::Subsets {
 public:
  Product(cdec_i32_rows left, cdec_i32_rows right, cdec_i32 left_of, cdec_i32 right_of,
          cdec_bool kept)
      : Subsets(left_of.size), left_(left), right_(right), left_of_(left_of), right_of_(right_of),
        keeps_left_(kept[2]), keeps_right_(kept[1]) {
    lists.intern(std::array<int32_t, 2>{0, 0});
  }

 private:
  void follow(cdec::List state) override {
    const int32_t *left = state[0] < left_.rows ? left_[state[0]] : nullptr;
    const int32_t *right = state[1] < right_.rows ? right_[state[1]] : nullptr;
    for (int64_t kind = 0; kind < width; ++kind) {
      const int32_t to = left ? left[left_of_[kind]] : -1;
      const int32_t beside = right ? right[right_of_[kind]] : -1;
      if ((to < 0 && (beside < 0 || !keeps_right_)) || (beside < 0 && !keeps_left_)) continue;
      lead(kind, std::array<int32_t, 2>{to < 0 ? static_cast<int32_t>(left_.rows) : to,
                                        beside < 0 ? static_cast<int32_t>(right_.rows) : beside});
    }
  }

  const cdec_i32_rows left_, right_;
  const cdec_i32 left_of_, right_of_;
  const bool keeps_left_, keeps_right_;
};

// Pairs of a scanner state and the number of a set of terminals that the match may end as. State 0
// is a match that has completed.
class Pending : public cdec::Subsets {
 public:
  Pending(const cdec_pending &scanner, cdec_u64_rows ends, cdec_i32 states, cdec_i32 state_ends)
      : Subsets(scanner.delta.width), scanner_(scanner) {
    for (int64_t i = 0; i < ends.rows; ++i) sets_.intern(words_of(ends, i));
    lists.intern(std::array<int32_t, 2>{-1, 0});
    for (int64_t i = 0; i < states.size; ++i)
      lists.intern(std::array<int32_t, 2>{states[i], state_ends[i]});
  }

 private:
  using Words = std::vector<int64_t>;

  static Words words_of(cdec_u64_rows sets, int64_t row) {
    return Words(sets[row], sets[row] + sets.width);
  }

  void follow(cdec::List pair) override {
    if (pair[0] < 0) return;
    for (int64_t kind = 0; kind < width; ++kind) {
      const int32_t target = scanner_.delta[pair[0]][kind];
      if (target < 0 || scanner_.meaning[target] == CDEC_STOPS) continue;
      if (scanner_.meaning[target] == CDEC_COMPLETES)
        lead(kind, int64_t{0});
      else
        lead(kind, std::array<int32_t, 2>{target, shared(pair[1], scanner_.live_row[target])});
    }
  }

  // The set of what is in a set and in a live row.
  int32_t shared(int64_t ends, int64_t row) {
    const int64_t key = ends * scanner_.live.rows + row;
    int64_t known = known_.find(key);
    if (known == cdec::Table::kAbsent) {
      Words both = words_of(scanner_.live, row);
      for (size_t i = 0; i < both.size(); ++i) both[i] &= sets_[ends][i];
      known_.set(key, known = sets_.intern(both));
    }
    return static_cast<int32_t>(known);
  }

  const cdec_pending &scanner_;
  cdec::Lists<int64_t> sets_{std::pmr::get_default_resource()};
  cdec::Table known_{std::pmr::get_default_resource()};
};

}  // namespace

extern "C" {

cdec_construction *cdec_follow_both(cdec_i32_rows left, cdec_i32_rows right, cdec_i32 left_of,
                                    cdec_i32 right_of, cdec_bool kept) {
  return cdec::made<Product>(left, right, left_of, right_of, kept);
}

cdec_construction *cdec_follow_pending(const cdec_pending *scanner, cdec_u64_rows ends,
                                       cdec_i32 states, cdec_i32 state_ends) {
  return cdec::made<Pending>(*scanner, ends, states, state_ends);
}

}  // extern "C"
