// What walks of the vocabulary from many scanner states share, each thing stored once.
#pragma once

#include "scanner.h"

namespace cdec::trees {

constexpr int32_t kNone = -1;
constexpr int32_t kRoot = kNone;  // the path of the reading that has completed no terminal

// A terminal was completed, or (terminal kNone) one was begun that enters state `next` by a class.
struct PathNode {
  int32_t parent, terminal, byte_class, next;
  int32_t level;  // distance from kRoot

  bool is(const PathNode &other) const {
    return parent == other.parent && terminal == other.terminal &&
           byte_class == other.byte_class && next == other.next;
  }
};

// A way to read the bytes so far.
struct Branch {
  int32_t path;
  int32_t state;  // of the scanner; below 0 at the end of a terminal
  int32_t begun;  // terminals begun within the token
  bool operator==(const Branch &) const = default;

  // subtle: without lexing the context after the terminal is kept in the state.
  static int32_t at_end(int32_t context) { return -1 - context; }
  bool is_at_end() const { return state < 0; }
  int32_t context() const { return -1 - state; }
};

// What a token that ends here leaves of a branch.
struct Result {
  int32_t path, live, depth;
  bool operator==(const Result &) const = default;
};

// Numbers by hash of things that are stored elsewhere.
class HashNumbers {
 public:
  // The number of what has this hash and `is_same`, -1 if there is none.
  template <class Same>
  int32_t find(uint64_t hash, Same &&is_same) const {
    for (size_t slot = hash & mask(); slots_[slot] >= 0; slot = (slot + 1) & mask())
      if (hashes_[slots_[slot]] == hash && is_same(slots_[slot])) return slots_[slot];
    return kNone;
  }

  // The next number, for what `find` did not find.
  int32_t add(uint64_t hash) {
    hashes_.push_back(hash);
    if (2 * hashes_.size() > slots_.size()) {
      slots_.assign(2 * slots_.size(), kNone);
      for (size_t i = 0; i + 1 < hashes_.size(); ++i) enter(static_cast<int32_t>(i));
    }
    enter(size() - 1);
    return size() - 1;
  }

  uint64_t hash(int32_t number) const { return hashes_[number]; }
  int32_t size() const { return static_cast<int32_t>(hashes_.size()); }

 private:
  size_t mask() const { return slots_.size() - 1; }
  void enter(int32_t number) {
    size_t slot = hashes_[number] & mask();
    while (slots_[slot] >= 0) slot = (slot + 1) & mask();
    slots_[slot] = number;
  }

  std::vector<uint64_t> hashes_;
  std::vector<int32_t> slots_ = std::vector<int32_t>(1 << 12, kNone);
};

class Paths {
 public:
  int32_t intern(int32_t parent, int32_t terminal, int32_t byte_class, int32_t next);
  bool is_below(int32_t node, int32_t ancestor) const;
  const PathNode &operator[](int32_t node) const { return nodes_[node]; }
  int32_t size() const { return numbers_.size(); }

  // Of the path's content, the same in all walks: branches are sorted by it.
  uint64_t hash(int32_t node) const { return node == kRoot ? 0 : numbers_.hash(node); }

 private:
  std::vector<PathNode> nodes_;
  HashNumbers numbers_;
};

// Lists, equal ones once, with a tag each.
template <class Item>
class TaggedLists {
 public:
  int32_t intern(std::span<const Item> list, int32_t tag);
  std::span<const Item> operator[](int32_t number) const {
    return {items_.data() + ends_[number], items_.data() + ends_[number + 1]};
  }
  int32_t size() const { return numbers_.size(); }

 private:
  std::vector<Item> items_;
  std::vector<int64_t> ends_ = {0};
  std::vector<int32_t> tags_;
  HashNumbers numbers_;
};

// Bits of flags: the terminal under way has completed; only the first branch is known.
constexpr int32_t kTaken = 1, kSpilled = 2;
// Outcomes: not computed; no branch; too many, so that the token is verified byte by byte.
constexpr int32_t kUnset = -3, kNothing = -1, kVerify = -2;

// A list of branches, the ways to read the bytes so far, in depth-first order of their paths.
struct WalkState {
  int32_t flags, outcome;
  int32_t alike;   // a following walk state with the same outcome and flags; -1: none
  uint64_t loops;  // bit k: byte class k leads to it
};

class Walks {
 public:
  static constexpr int32_t kDead = 0;  // without branches, and nothing was completed

  explicit Walks(const Scanner &scanner);

  // The walk state of a scanner state before the token's first byte.
  int32_t start(int32_t state);
  // The walk state after a byte of class k.
  int32_t after(int32_t walk, int32_t k) {
    const int32_t known = transitions_[walk * classes_ + k];
    return known >= 0 ? known : follow(walk, k);
  }
  // The outcome of tokens that end here: branches by path and live row, sorted, none twice.
  int32_t outcome(int32_t walk);
  bool is_taken(int32_t walk) const { return states_[walk].flags & kTaken; }
  // Whether all texts of some classes, up to a length, leave outcome and flags as they are; what is
  // not noted yet counts as a change.
  bool is_even(int32_t walk, uint64_t classes, int32_t height) const;

  std::span<const Result> results(int32_t outcome) const { return outcomes_[outcome]; }
  int32_t outcome_count() const { return outcomes_.size(); }
  const Paths &paths() const { return paths_; }
  bool is_large() const { return transitions_.size() > kMostTransitions; }
  // Branches that were looked at so far.
  int64_t work() const { return work_; }

 private:
  static constexpr size_t kMostTransitions = 1 << 24;  // 64 MB

  int32_t follow(int32_t walk, int32_t k);
  bool stops(int32_t walk, int32_t k) const;
  int32_t step_lexing(int32_t walk, int32_t k);
  int32_t step_dynamic(int32_t walk, int32_t k);
  void enter(int32_t path, int32_t state, int32_t begun);
  void put_sorted(const Branch &branch);
  int32_t spilled_lexing(int32_t flags);
  int32_t intern(int32_t flags);
  void note_alike(int32_t walk, int32_t k, int32_t following);
  int32_t find_outcome(int32_t walk);
  void place(const Result &result);
  void drop_implied();
  bool is_full() const { return static_cast<int64_t>(list_.size()) > 4 * scanner_.max_branches; }

  const Scanner &scanner_;
  int64_t classes_;
  int64_t work_ = 0;
  Paths paths_;
  TaggedLists<Branch> lists_;         // by walk state, tagged with its flags
  std::vector<WalkState> states_;
  std::vector<int32_t> transitions_;  // by walk state and class, -1: not known yet
  TaggedLists<Result> outcomes_;
  std::vector<Branch> list_;          // under construction
  std::vector<Result> results_;
};

}  // namespace cdec::trees
