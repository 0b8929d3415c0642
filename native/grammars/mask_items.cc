// Pending items go on above an LR state: from a tree's root, or after a reduction.
//
// The work is done above the LR state alone, with the unknown suffix right below it, so that it is
// the same for every state of the automaton and every stack.
#include "mask_automaton.h"

namespace cdec::grammars {

// The state of what pending items, or an initial state, find. O(path nodes and branches beneath them).
int64_t MaskAutomaton::compute_evaluated(int64_t pending, int64_t lr_state) {
  root_ = root_of(pending);
  tree_ = trees_[tree_of(root_)];
  trees_.link(tree_);
  load_effects();
  found_.clear();
  open_.clear();
  allowed_.assign((tree_.allowed_count() + 63) >> 6, 0);
  const Stack stack = stacks_.vertex(lr_state, partial_.unknown_suffix());
  if (is_initial(pending)) {
    visit(trees_.first_branch(tree_.number), trees_.first_node(tree_.number), stack);
    read_tokens(stack);
  } else {
    for (int64_t i = 0; i < lists_.length(pending); ++i) {
      const int64_t packed = lists_.item(pending, i);
      resume(high_half(packed), int64_t{low_half(packed)} - 1, stack);
    }
  }
  while (!open_.empty()) {
    const auto [node, above] = open_.back();
    open_.pop_back();
    visit(trees_.branch_beneath(node), trees_.node_beneath(node), above);
  }
  const int64_t result = found_state();
  evaluated_.set(pack(pending, lr_state), result);
  work_.spend(1 + 2 * static_cast<int64_t>(found_.size()));
  work_.pause();
  return result;
}

int64_t MaskAutomaton::found_state() {
  lists_.begin(root_ << 2 | kAllowed);
  for (const uint64_t word : allowed_) lists_.append(static_cast<int64_t>(word));
  const int64_t allowed = lists_.end();
  std::ranges::sort(found_);
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  size_t kept = 0;
  for (size_t i = 0; i < found_.size();) {
    const int64_t reduction = found_[i].first;
    lists_.begin(root_ << 2 | kPending);
    for (; i < found_.size() && found_[i].first == reduction; ++i) lists_.append(found_[i].second);
    found_[kept++] = {reduction, lists_.end()};
  }
  found_.resize(kept);
  return state_of(root_, allowed, found_);
}

// Tries the branches at a node, and shifts the terminals of the nodes beneath it.
void MaskAutomaton::visit(int32_t branch, int32_t node, Stack stack) {
  for (; branch >= 0; branch = trees_.next_branch(branch)) {
    const int64_t code = effect_at(tree_.item_of_branch(branch));
    if (code == kFails) continue;
    try_branch(branch, code == kPlain ? grammar_.columns.branch_live[branch] : code, stack);
  }
  for (; node >= 0; node = trees_.next_node(node))
    try_node(node, effect_at(tree_.item_of_node(node)), stack);
}

// Notes that a branch's group is allowed, or what of its live row waits.
void MaskAutomaton::try_branch(int64_t branch, int64_t row, Stack stack) {
  const int64_t group = trees_.group_of(branch) - tree_.groups.begin;
  if (group < 0 || is_allowed(group)) return;
  if (grammar_.columns.branch_depth[branch] > grammar_.lookahead) return;
  if (row < 0 || can_shift_row(stack, row, tree_.item_of_branch(branch))) allow(group);
}

// Shifts a node's terminal, or what an indenter makes of it, or lets it wait. What lies beneath the
// node goes on above the stack after it.
void MaskAutomaton::try_node(int64_t node, int64_t code, Stack stack) {
  const int64_t terminal = grammar_.columns.path_terminal[node];
  auto effect = static_cast<Effect>(code);
  const auto open = [&](Stack above) { open_.emplace_back(static_cast<int32_t>(node), above); };
  if (effect == kDropped)
    open(indents_.without_line(stack));
  else if (terminal < 0 && enters(stack, node))
    open(stack);
  if (effect == kDropped || effect == kFails || terminal < 0) return;
  const int64_t item = tree_.item_of_node(node);
  while (stack != kFail && effect != 0) {
    const bool is_plain = effect < 0;
    const PartialOutcome outcome =
        partial_.shift(stack, is_plain ? terminal : indents_.symbol(effect));
    defer(outcome.deferred, item, is_plain ? -1 : as_row(effect));
    stack = outcome.stack;
    effect = is_plain ? 0 : rest_of(effect);
  }
  if (stack != kFail) open(stack);
}

void MaskAutomaton::defer(int64_t reductions, int64_t item, int64_t row) {
  for (int64_t i = 0; i < lists_.length(reductions); ++i)
    found_.emplace_back(lists_.item(reductions, i), pack(item, row + 1));
}

// Whether a partial stack takes a live row; if not, notes what of it waits.
bool MaskAutomaton::can_shift_row(Stack stack, int64_t row, int64_t item) {
  const PartialOutcome outcome = partial_.shift_any(stack, row);
  if (outcome.stack != kFail) return true;
  for (int64_t i = 0; i + 1 < lists_.length(outcome.deferred); i += 2)
    found_.emplace_back(lists_.item(outcome.deferred, i),
                        pack(item, lists_.item(outcome.deferred, i + 1) + 1));
  return false;
}

// Whether the next terminal's first byte leads to the scanner state of an ENTER node.
bool MaskAutomaton::enters(Stack stack, int64_t node) const {
  if (stack < 0 || stacks_[stack].state >= grammar_.lr_states) return false;
  const int64_t start = grammar_.start_of(grammar_.columns.lr_context[stacks_[stack].state]);
  if (start == -1) return false;
  return grammar_.scan_class(start, grammar_.columns.path_byte[node]) ==
         grammar_.columns.path_next[node];
}

// Goes on with an item that waited, above the LR state of its reduction's goto.
void MaskAutomaton::resume(int64_t item, int64_t row, Stack stack) {
  const int64_t branch = tree_.branches.begin + item - tree_.nodes.size();
  if (0 <= item && item < tree_.nodes.size()) {
    try_node(tree_.nodes.begin + item, is_effect(row) ? effect_of(row) : kPlain, stack);
  } else if (tree_.branches.holds(branch)) {
    try_branch(branch, row, stack);
  } else if (reads_tokens()) {
    const int64_t place = branch - tree_.branches.end;
    if (0 <= place && place < tree_.tokens.size()) resume_token(place, row, stack);
  }
}

// Writes down the effects of the initial state at work; kPlain: what the tree says.
void MaskAutomaton::load_effects() {
  if (root_ < grammar_.trees || root_ == loaded_) return;
  effects_.assign(tree_.item_of_token(0), kPlain);
  const auto list = lists_.items(root_);
  for (size_t i = list.size(); i-- > 1;)
    if (const int64_t item = high_half(list[i]); 0 <= item && item < tree_.item_of_token(0))
      effects_[item] = low_half(list[i]);
  loaded_ = root_;
}

}  // namespace cdec::grammars
