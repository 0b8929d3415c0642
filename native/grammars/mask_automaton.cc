#include "mask_automaton.h"

namespace cdec::grammars {

int64_t MaskAutomaton::root_of(int64_t number) const {
  if (is_initial(number)) return number;
  const int64_t root = lists_.tag(number) >> 2;
  return lists_.holds(root) ? root : 0;
}

// The tree of a list, or of a root; 0 where an artifact is damaged.
int64_t MaskAutomaton::tree_of(int64_t number) const {
  while (lists_.length(number) >= 0) {
    const int64_t above = lists_.tag(number) >> 2;
    if (above < 0 || above >= number) return 0;
    number = above;
  }
  return number < grammar_.trees ? number : 0;
}

// The state after a step that the artifact holds; -1 if it does not.
int64_t MaskAutomaton::stored_step(int64_t state, int64_t lr_state) const {
  const cdec_grammar &columns = grammar_.columns;
  if (state >= lists_.stored_end()) return -1;
  const Range range = range_of(columns.automaton_step_offsets, state, columns.automaton_read.size);
  const int64_t at = place_of(columns.automaton_read, range, lr_state);
  const int64_t after = at >= 0 ? columns.automaton_after[at] : -1;
  return grammar_.trees <= after && after < lists_.stored_end() ? after : -1;
}

// What waits for this LR state goes on, the rest waits for one less. O(deferred reductions of the
// state) if what waits was met above the same gotos before.
int64_t MaskAutomaton::compute_step(int64_t state, int64_t lr_state) {
  const int64_t following =
      is_initial(state) ? evaluate(state, lr_state) : step_after_others(state, lr_state);
  ++misses_;
  steps_.set(pack(state, lr_state), following);
  work_.spend(1 + lists_.length(state));
  work_.pause();
  return following;
}

// A step of a state that is not initial.
int64_t MaskAutomaton::step_after_others(int64_t state, int64_t lr_state) {
  below_.clear();
  ready_.clear();
  split_deferred(state);
  int64_t allowed = lists_.named(state, 0);
  for (size_t at = 0; at < ready_.size(); ++at) {
    const auto [reduction, pending] = ready_[at];
    const int64_t target = grammar_.goto_state(lr_state, high_half(reduction));
    if (target < 0) continue;
    const int64_t found = evaluate(pending, target);
    allowed = lists_.either(allowed, lists_.named(found, 0));
    split_deferred(found);
  }
  // subtle: nothing lies below the first LR state, so nothing is worth waiting for.
  if (lr_state == 0) below_.clear();
  return state_of(root_of(state), allowed, below_);
}

// Tells reductions that end at the LR state that is read from those that pop further.
void MaskAutomaton::split_deferred(int64_t state) {
  for (int64_t i = 1; i < lists_.length(state); i += 2) {
    const int64_t reduction = lists_.item(state, i);
    const Pair pair{reduction, lists_.named(state, i + 1)};
    if (low_half(reduction) != 0)
      below_.emplace_back(reduction - 1, pair.second);
    else if (std::ranges::find(ready_, pair) == ready_.end())
      ready_.push_back(pair);
  }
}

// The state of what is allowed and of pairs (deferred reduction, list of pending items).
int64_t MaskAutomaton::state_of(int64_t root, int64_t allowed, std::vector<Pair> &pending) {
  std::ranges::sort(pending);
  size_t kept = 0;
  for (size_t i = 0; i < pending.size();) {
    auto [reduction, list] = pending[i];
    for (++i; i < pending.size() && pending[i].first == reduction; ++i)
      list = lists_.merge(list, pending[i].second);
    list = without(list, allowed);
    if (lists_.length(list) > 0) pending[kept++] = {reduction, list};
  }
  lists_.begin(root << 2 | kState);
  lists_.append(allowed);
  for (size_t i = 0; i < kept; ++i) {
    lists_.append(pending[i].first);
    lists_.append(pending[i].second);
  }
  return lists_.end();
}

// Pending items without those of what is allowed. O(1) if done before.
int64_t MaskAutomaton::without(int64_t pending, int64_t allowed) {
  const int64_t known = lists_.known_of(pending, allowed);
  if (known != Table::kAbsent) return known;
  const int64_t root = root_of(pending);
  const Tree tree = trees_[tree_of(root)];
  trees_.link(tree);
  const auto bits = lists_.items(allowed);
  lists_.begin(root << 2 | kPending);
  for (const int64_t packed : lists_.items(pending)) {
    const int64_t branch = high_half(packed) - tree.nodes.size();
    const int64_t token = branch - tree.branches.size();
    int64_t number = -1;
    if (token >= 0)
      number = tree.groups.size() + token;
    else if (branch >= 0)
      number = trees_.group_of(tree.branches.begin + branch) - tree.groups.begin;
    const bool is_known = 0 <= number && number < 64 * static_cast<int64_t>(bits.size());
    if (!is_known || (bits[number >> 6] >> (number & 63) & 1) == 0) lists_.append(packed);
  }
  const int64_t result = lists_.end();
  lists_.note(pending, allowed, result);
  return result;
}

MaskStore::Row MaskAutomaton::row_of(const MaskStore &store, int64_t state) const {
  MaskStore::Row row = store.row();
  const Tree tree = trees_[tree_of(state)];
  const auto bits = lists_.items(allowed_by(state));
  for (size_t i = 0; i < bits.size(); ++i)
    for (auto word = static_cast<uint64_t>(bits[i]); word; word &= word - 1) {
      const int64_t number = static_cast<int64_t>(64 * i) + std::countr_zero(word);
      const int64_t token = tree.tokens.begin + number - tree.groups.size();
      if (number < tree.groups.size())
        store.add_group(row, tree.groups.begin + number);
      else if (token < tree.tokens.end)
        store.add_token(row, grammar_.columns.verify_tokens[token]);
    }
  return row;
}

int64_t MaskAutomaton::initial_state(int64_t at, int64_t tree, Stack stack) {
  const Stack blocks = indents_.blocks_of(stack);
  if (blocks < 0) return tree;
  const int64_t known = initial_.find(pack(at, blocks));
  return known != Table::kAbsent ? known : compute_initial(at, blocks);
}

}  // namespace cdec::grammars
