// Masks as an automaton that reads the stack from its top, one LR state a step; made lazily.
//
// The stacks that allow a group of tokens at one scanner state are a regular language: the terminals
// of its sequence pop what they read, and push what later ones pop. All groups of a tree together are
// one deterministic automaton. It generalises what DOMINO (arXiv 2403.06988, section 3.3) finds by
// walking a tree for every stack anew; equal states are one, however they were reached, so the states
// of deeply nested texts are those of shallow ones.
//
// A state is a list of the list of what is allowed whatever lies below, and of pairs: a deferred
// reduction, and the list of the *pending items* that wait for it, `item << 32 | row + 1`: with a row
// of live terminals, or of other meaning to it; -1: none. In an initial state everything is pending.
//
// Without an indenter a tree has one initial state, the tree's number. With one, line breaks do what
// the open blocks say, so a tree has an initial state for every way in which they can act on it: equal
// ones are one, however deep a text is indented. Such a state is a list of -1 and of `item << 32 |
// effect` for path nodes and of `item << 32 | live row` for branches, where they are not what the tree
// says. The *root* of a list is the initial state that it was reached from.
#pragma once

#include "mask_store.h"
#include "partial.h"
#include "recogniser.h"
#include "trees.h"

namespace cdec::grammars {

class MaskAutomaton {
 public:
  MaskAutomaton(const Grammar &grammar, Memory &memory, cdec_i32 tree_state, Trees &trees,
                Stacks &stacks, Indents &indents, Recogniser &recogniser, MaskLists &lists,
                PartialParser &partial, Work &work, int64_t &misses)
      : grammar_(grammar),
        tree_state_(tree_state),
        trees_(trees),
        stacks_(stacks),
        indents_(indents),
        recogniser_(recogniser),
        lists_(lists),
        partial_(partial),
        work_(work),
        misses_(misses),
        evaluated_(&memory.memos),
        steps_(&memory.memos),
        initial_(&memory.memos) {}

  // The initial state of a tree's scanner state and a stack.
  int64_t initial_state(int64_t at, int64_t tree, Stack stack);
  // The state after reading an LR state. O(1) if done before.
  int64_t step(int64_t state, int64_t lr_state) {
    const int64_t stored = stored_step(state, lr_state);
    if (stored >= 0) return stored;
    const int64_t known = steps_.find(pack(state, lr_state));
    return known != Table::kAbsent ? known : compute_step(state, lr_state);
  }
  // Begins to load what `step` will look at.
  void prefetch(int64_t state, int64_t lr_state) const { steps_.prefetch(pack(state, lr_state)); }
  // Whether nothing waits in a state: its mask is that of all stacks below.
  bool is_final(int64_t state) const { return lists_.length(state) == 1; }
  // The list of what a state allows whatever lies below.
  int64_t allowed_by(int64_t state) const { return lists_.named(state, 0); }
  // The same as a mask.
  MaskStore::Row row_of(const MaskStore &store, int64_t state) const;
  // Whether the automaton reads long tokens, too: for every segmentation and lookahead.
  bool reads_tokens() const {
    return grammar_.is_general && grammar_.lookahead == Grammar::kUnlimited;
  }

  const MaskLists &lists() const { return lists_; }
  const Table &steps() const { return steps_; }

 private:
  // Rows of pending tokens, within which a terminal waits: kWithin + byte * terminals + terminal.
  static constexpr int64_t kWithin = 1 << 29;

  // mask_automaton.cc: steps, and what lists are
  int64_t stored_step(int64_t state, int64_t lr_state) const;
  int64_t compute_step(int64_t state, int64_t lr_state);
  int64_t step_after_others(int64_t state, int64_t lr_state);
  void split_deferred(int64_t state);
  int64_t state_of(int64_t root, int64_t allowed, std::vector<Pair> &pending);
  int64_t without(int64_t pending, int64_t allowed);
  bool is_initial(int64_t number) const {
    return lists_.length(number) < 0 || (lists_.tag(number) & 3) == kInitial;
  }
  int64_t root_of(int64_t number) const;
  int64_t tree_of(int64_t number) const;

  // mask_items.cc: pending items go on above an LR state
  int64_t evaluate(int64_t pending, int64_t lr_state) {
    const int64_t known = evaluated_.find(pack(pending, lr_state));
    return known != Table::kAbsent ? known : compute_evaluated(pending, lr_state);
  }
  int64_t compute_evaluated(int64_t pending, int64_t lr_state);
  int64_t found_state();
  void visit(int32_t branch, int32_t node, Stack stack);
  void try_branch(int64_t branch, int64_t row, Stack stack);
  void try_node(int64_t node, int64_t code, Stack stack);
  bool enters(Stack stack, int64_t node) const;
  void resume(int64_t item, int64_t row, Stack stack);
  int64_t effect_at(int64_t item) const {
    const bool is_known = root_ >= grammar_.trees && static_cast<size_t>(item) < effects_.size();
    return is_known ? effects_[item] : kPlain;
  }
  void load_effects();
  bool can_shift_row(Stack stack, int64_t row, int64_t item);
  bool is_allowed(int64_t number) const { return allowed_[number >> 6] >> (number & 63) & 1; }
  void allow(int64_t number) { allowed_[number >> 6] |= uint64_t{1} << (number & 63); }
  void defer(int64_t reductions, int64_t item, int64_t row);

  // mask_tokens.cc: tokens read byte by byte above a partial stack
  void read_tokens(Stack stack);
  void resume_token(int64_t place, int64_t row, Stack stack);
  bool allows(int64_t token, int64_t item, size_t position);
  Stack shifted(int64_t item, size_t position, int64_t terminal, Stack stack);

  // mask_indents.cc: what line breaks and brackets do above some open blocks
  int64_t compute_initial(int64_t at, Stack blocks);
  void note_nodes(const Tree &tree, Stack blocks, int64_t column);
  void note_branches(const Tree &tree, Stack blocks, int64_t column);
  int64_t row_above(int64_t row, Stack blocks, int64_t column);
  int64_t compute_row_above(int64_t row, Stack blocks, int64_t column);
  int64_t part_above(int64_t row, Stack blocks, int64_t column, bool has_line);

  const Grammar &grammar_;
  const cdec_i32 tree_state_;  // a scanner state of each tree
  Trees &trees_;
  Stacks &stacks_;
  Indents &indents_;
  Recogniser &recogniser_;
  MaskLists &lists_;
  PartialParser &partial_;
  Work &work_;
  int64_t &misses_;
  Table evaluated_;  // (initial state, or list of pending items, LR state) -> state
  Table steps_;      // (state, LR state) -> state
  Table initial_;    // (scanner state, open blocks) -> initial state

  // What the work on a tree has found so far.
  int64_t root_ = 0;
  Tree tree_{};
  std::vector<uint64_t> allowed_;  // bits of groups and tokens
  std::vector<Pair> found_;        // (deferred reduction, pending item)
  std::vector<std::pair<int32_t, Stack>> open_;  // path nodes to look beneath, and stacks there
  std::vector<Pair> below_, ready_;              // what waits after a step; what goes on
  int64_t loaded_ = -1;                          // initial state of which `effects_` are
  std::vector<int32_t> effects_;  // by node and branch: the effect, or live row, of that
  std::vector<Stack> node_blocks_;
  struct RowAbove {
    int64_t initial = 0, code = 0;
    Stack blocks = kNone;
  };
  std::vector<RowAbove> rows_above_;  // by live row: what was found last
  int64_t initial_count_ = 0;
};

}  // namespace cdec::grammars
