// One thread's share of the trees: a walk of the trie from one scanner state after another.
#pragma once

#include <optional>

#include "forest.h"
#include "walks.h"

namespace cdec::trees {

// Tokens first:stop of the trie's order that have one outcome.
struct TokenRange {
  int32_t outcome, first, stop;
};

// Numbers given to items within one tree.
class Marks {
 public:
  void begin(size_t items) {
    ++stamp_;
    marks_.resize(std::max(items, marks_.size()), Mark{});
  }
  bool has(int32_t item) const { return marks_[item].stamp == stamp_; }
  int32_t operator[](int32_t item) const { return marks_[item].number; }
  void set(int32_t item, int32_t number) { marks_[item] = {stamp_, number}; }

 private:
  struct Mark {
    int32_t stamp = 0, number = 0;
  };
  int32_t stamp_ = 0;
  std::vector<Mark> marks_;
};

// The subterminal trees of "Guiding LLMs the right way" (DOMINO, arXiv 2403.06988, section 3), with
// two changes: readings are told apart by the parser's contexts, so that contextual lexing is exact,
// and a walk runs on interned lists of readings, so that an edge of the trie costs one look-up.
class Worker {
 public:
  explicit Worker(Forest &forest)
      : forest_(forest), walks_(std::in_place, forest.scanner),
        open_(forest.trie.longest() + 2), mask_(forest.words) {}

  // Builds trees until none is left (0), or for so many steps (1); CDEC_TOO_MANY_NODES.
  int64_t build(int64_t steps);

 private:
  struct Group {
    int32_t outcome, size, first;  // size in tokens; first of `sorted_`
  };

  bool next_class();
  int64_t walk(int64_t &steps);
  void walk_node(bool asks_taken);
  void collect_groups();
  void write_tree();
  void write_group(const Group &group, size_t stop);
  void write_verified();
  int32_t path_number(int32_t node);
  void set_bits(const TokenRange &range);
  int32_t take_mask();
  void add_tokens(const TokenRange &range, std::vector<int32_t> &tokens) const;

  Forest &forest_;
  std::optional<Walks> walks_;
  Forest::Range classes_{0, 0};            // taken; the first is under way
  bool is_under_way_ = false;
  int32_t node_ = 0, top_ = 0;             // where its walk stands
  std::vector<int32_t> open_;              // walk states on the way down to there, by depth
  std::vector<TokenRange> ranges_, takes_; // what tokens are; those that complete the terminal
  std::vector<Group> groups_;
  std::vector<TokenRange> sorted_;         // by group
  Marks group_of_outcome_, number_of_path_;
  std::vector<int32_t> climb_, mask_;
  Tree tree_;
};

}  // namespace cdec::trees
