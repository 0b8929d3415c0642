// Constructions of automata state by state: lists of integers by number, and numbers of what follows.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "lists.h"

struct cdec_construction {
  explicit cdec_construction(int64_t width) : width(width) {}
  virtual ~cdec_construction() = default;
  virtual bool is_complete() const = 0;
  // Does the next part; says about how many operations it took.
  virtual int64_t step() = 0;

  const int64_t width;
  cdec::Lists<int32_t> lists{std::pmr::get_default_resource()};
  int64_t rows = 0;
  std::vector<int32_t> numbers; // [rows, width]
};

namespace cdec {

using List = std::span<const int32_t>;

// A subset construction: a state is a list, and a step finds the states that follow one.
class Subsets : public cdec_construction {
 public:
  using cdec_construction::cdec_construction;
  bool is_complete() const final { return rows == lists.size(); }
  int64_t step() final {
    const List state = lists[rows];
    state_.assign(state.begin(), state.end());
    numbers.resize((rows + 1) * width, -1);
    follow(state_);
    ++rows;
    return width + static_cast<int64_t>(state_.size());
  }

 protected:
  // Calls `lead` for every class that leads on.
  virtual void follow(List state) = 0;
  void lead(int64_t kind, List state) { lead(kind, lists.intern(state)); }
  void lead(int64_t kind, int64_t state) {
    numbers[rows * width + kind] = static_cast<int32_t>(state);
  }

 private:
  std::vector<int32_t> state_;
};

}  // namespace cdec
