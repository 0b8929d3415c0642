// What can be reached in a scanner: states, terminals, and the states that reach each other.
#include "cdec_native.h"
#include "construction.h"
#include "guarded.h"

namespace {

// Strongly connected components (Tarjan 1972), numbered as they are closed: edges lead to the same or
// an earlier one. A path stands in for recursion.
class Components {
 public:
  explicit Components(cdec_i32_rows delta)
      : of(delta.rows, -1), begins(1, 0), delta_(delta), index_(delta.rows, -1), low_(delta.rows),
        edge_(delta.rows) {
    for (int32_t root = 0; root < delta.rows; ++root) {
      if (index_[root] < 0) enter(root);
      while (!path_.empty()) go_on();
    }
  }

  int64_t size() const { return static_cast<int64_t>(begins.size()) - 1; }

  std::vector<int32_t> of, members; // by state; states by component
  std::vector<int64_t> begins;

 private:
  void enter(int32_t state) {
    path_.push_back(state);
    waiting_.push_back(state);
    index_[state] = low_[state] = clock_++;
  }

  void go_on() {
    const int32_t state = path_.back();
    while (edge_[state] < delta_.width) {
      const int32_t target = delta_[state][edge_[state]++];
      if (target < 0) continue;
      if (index_[target] < 0) return enter(target);
      if (of[target] < 0) low_[state] = std::min(low_[state], index_[target]);
    }
    if (low_[state] == index_[state]) close(state);
    path_.pop_back();
    if (!path_.empty()) low_[path_.back()] = std::min(low_[path_.back()], low_[state]);
  }

  void close(int32_t root) {
    int32_t member;
    do {
      members.push_back(member = waiting_.back());
      waiting_.pop_back();
      of[member] = static_cast<int32_t>(size());
    } while (member != root);
    begins.push_back(static_cast<int64_t>(members.size()));
  }

  const cdec_i32_rows delta_;
  std::vector<int32_t> path_, waiting_;
  std::vector<int64_t> index_, low_, edge_;
  int64_t clock_ = 0;
};

// The terminals that can complete after each state; states of one component share the list.
class LiveRows : public cdec_construction {
 public:
  LiveRows(cdec_i32_rows delta, cdec_i32 match_offsets, cdec_i32 matches, int64_t terminals)
      : cdec_construction(1), delta_(delta), match_offsets_(match_offsets), matches_(matches),
        components_(delta), row_of_(components_.size()), visited_(components_.size()),
        seen_(terminals) {
    numbers.resize(rows = delta.rows);
  }

  bool is_complete() const override { return next_ == components_.size(); }

  int64_t step() override {
    row_.clear();
    const int64_t begin = components_.begins[next_], end = components_.begins[next_ + 1];
    for (int64_t at = begin; at < end; ++at) {
      const int32_t *targets = delta_[components_.members[at]];
      for (int64_t kind = 0; kind < delta_.width; ++kind)
        if (targets[kind] >= 0 && (kind == 0 || targets[kind] != targets[kind - 1]))
          collect_behind(targets[kind]);
    }
    std::ranges::sort(row_);
    row_of_[next_] = static_cast<int32_t>(lists.intern(row_));
    for (int64_t at = begin; at < end; ++at) numbers[components_.members[at]] = row_of_[next_];
    ++next_;
    return (end - begin) * delta_.width + static_cast<int64_t>(row_.size());
  }

 private:
  void collect_behind(int32_t target) {
    const int64_t first = match_offsets_[target];
    collect({matches_.at + first, matches_.at + match_offsets_[target + 1]});
    const int32_t there = components_.of[target];
    if (there == next_ || std::exchange(visited_[there], next_ + 1) == next_ + 1) return;
    collect(lists[row_of_[there]]);
  }

  void collect(cdec::List terminals) {
    for (const int32_t terminal : terminals)
      if (std::exchange(seen_[terminal], next_ + 1) != next_ + 1) row_.push_back(terminal);
  }

  const cdec_i32_rows delta_;
  const cdec_i32 match_offsets_, matches_;
  const Components components_;
  std::vector<int32_t> row_of_, row_;
  std::vector<int64_t> visited_, seen_; // by component, by terminal: one more than who saw it last
  int64_t next_ = 0;
};

}  // namespace

extern "C" {

cdec_construction *cdec_find_live(cdec_i32_rows delta, cdec_i32 match_offsets, cdec_i32 matches,
                                  int64_t terminals) {
  return cdec::made<LiveRows>(delta, match_offsets, matches, terminals);
}

int64_t cdec_has_cycle(cdec_i32_rows delta) {
  return cdec::guarded([&]() -> int64_t {
    if (Components(delta).size() < delta.rows) return 1;
    for (int32_t state = 0; state < delta.rows; ++state)
      if (std::find(delta[state], delta[state + 1], state) != delta[state + 1]) return 1;
    return 0;
  });
}

int64_t cdec_mark_ahead(cdec_i32_rows delta, cdec_i32 letter, cdec_i32 sources, cdec_i32_out stamps,
                        int64_t stamp, cdec_bool_out found) {
  return cdec::guarded([&]() -> int64_t {
    std::vector<int32_t> stack(sources.at, sources.at + sources.size);
    while (!stack.empty()) {
      const int32_t state = stack.back();
      stack.pop_back();
      for (int64_t kind = 0; kind < delta.width; ++kind) {
        const int32_t target = delta[state][kind];
        if (target < 0 || stamps[target] == stamp) continue;
        stamps[target] = static_cast<int32_t>(stamp);
        if (letter[target] >= 0) found[letter[target]] = 1;
        stack.push_back(target);
      }
    }
    return 0;
  });
}

}  // extern "C"
