#include "masks.h"

namespace cdec::grammars {

int64_t Masks::of(std::span<const Configuration> configurations) {
  int64_t mask = -1;
  for (size_t i = configurations.size(); i-- > 0;) {
    int64_t at = configurations[i].at;
    if (grammar_.is_start(at)) at -= grammar_.scanner_states;
    const int64_t own = of_configuration(at, configurations[i].stack);
    const int64_t taken = grammar_.columns.tree_taken[grammar_.tree_of_state(at)];
    mask = mask < 0 ? own : store.join(own, taken, mask);
  }
  return mask;
}

int64_t Masks::of_configuration(int64_t at, Stack stack) {
  if (automaton_.reads_tokens()) return read_or_step(at, stack);
  const int64_t tree = grammar_.tree_of_state(at);
  const int64_t mask = read(at, tree, stack);
  if (trees_[tree].tokens.size() == 0) return mask;
  return store.join(mask, -1, stepped(at, stack));
}

int64_t Masks::read(int64_t at, int64_t tree, Stack stack) {
  const int64_t mask =
      follow(automaton_.initial_state(at, tree, stack), indents_.parser_stack(stack));
  return mask != kUnfinished ? mask : run(remainder_);
}

// For every segmentation: a mask is stepped where the stack forks into very many, and where the
// automaton needs too much work. What all stacks have in common can be far more than what this one
// needs.
int64_t Masks::read_or_step(int64_t at, Stack stack) {
  const int64_t key = pack(at, stack), known = stepped_.find(key);
  if (known != Table::kAbsent) return known;
  if (paused->is_set && paused->key == key) return stepped(at, stack);
  try {
    const Work::Limit limit(work_, kWork);
    const int64_t mask = follow(grammar_.tree_of_state(at), stack);
    if (mask != kUnfinished) return mask;
    if (stacks_.count(remainder_.stack) <= kWide) return run(remainder_);
  } catch (const Stopped &) {
    if (work_.is_over()) throw;
  }
  return stepped(at, stack);
}

// Reads a stack; kUnfinished where it forks, or has more LR states that matter than are read at
// once.
int64_t Masks::follow(int64_t state, Stack stack) {
  for (int64_t left = at_once_; stack != kNone && !automaton_.is_final(state); --left) {
    if (stack < 0 || left == 0) {
      const int64_t known = runs_.find(pack(state, stack));
      remainder_ = {state, stack};
      return known != Table::kAbsent ? known : kUnfinished;
    }
    state = automaton_.step(state, stacks_[stack].state);
    stack = stacks_[stack].below;
  }
  return of_state(state);
}

// The mask of a state and what is left of a stack, noted. Pairs that wait for others stand in a list,
// so that deep stacks need no recursion.
int64_t Masks::run(Remainder rest) {
  open_.assign(1, rest);
  int64_t mask = kUnfinished;
  while (!open_.empty()) {
    const size_t top = open_.size() - 1;
    const Remainder here = open_[top];
    mask = union_of_ways(here);
    if (mask == kUnfinished) continue;
    runs_.set(pack(here.state, here.stack), mask);
    open_.resize(top);
    work_.spend(1 + stacks_.count(here.stack));
    work_.pause();
  }
  return mask;
}

// Reads a stack along all its ways; kUnfinished if one of them waits for a pair that was put on the
// list.
int64_t Masks::union_of_ways(Remainder rest) {
  if (stacks_.count(rest.stack) == 0) return of_state(rest.state);
  int64_t mask = -1;
  bool is_open = false;
  for (int64_t i = 0; i < stacks_.count(rest.stack); ++i) {
    const Vertex top = stacks_[stacks_.member(rest.stack, i)];
    const int64_t own = follow(automaton_.step(rest.state, top.state), top.below);
    if (own == kUnfinished) {
      is_open = true;
      open_.push_back(remainder_);
    } else {
      mask = mask < 0 ? own : store.join(mask, -1, own);
    }
  }
  return is_open ? kUnfinished : mask;
}

// The mask of what a state allows whatever lies below: computed at the first call, since most states
// are only passed.
int64_t Masks::of_state(int64_t state) {
  const int64_t allowed = automaton_.allowed_by(state);
  const int64_t known = of_lists_.find(allowed);
  if (known != Table::kAbsent) return known;
  const int64_t mask = store.keep(automaton_.row_of(store, state));
  if (allowed > 0) of_lists_.set(allowed, mask);
  return mask;
}

// The mask of the tokens that are stepped. For every segmentation the automaton reads long tokens as
// well, and it asks here for all of the tokens of a stack that is very wide. What was done when the
// call had to come back is not done again.
int64_t Masks::stepped(int64_t at, Stack stack) {
  const int64_t key = pack(at, stack), known = stepped_.find(key);
  if (known != Table::kAbsent) return known;
  if (!paused->is_set || paused->key != key) *paused = {true, key, 0, store.row()};
  step(*paused, at, stack);
  paused->is_set = false;
  const int64_t mask = store.keep(paused->row);
  stepped_.set(key, mask);
  return mask;
}

void Masks::step(PausedRow &work, int64_t at, Stack stack) {
  const Tree tree = trees_[grammar_.tree_of_state(at)];
  const int64_t groups = automaton_.reads_tokens() ? tree.groups.size() : 0;
  const Trial trial(stacks_, work_, parser_.paused);
  LastToken last;
  for (int64_t &i = work.done; i < groups + tree.tokens.size(); ++i) {
    if (i < groups) {
      step_group(work.row, tree.groups.begin + i, at, stack);
    } else {
      const int64_t token = grammar_.columns.verify_tokens[tree.tokens.begin + i - groups];
      step_token(work.row, token, at, stack, last);
    }
    if (!work_.is_due()) continue;
    ++i;
    work_.pause();
  }
}

// Adds a group by stepping one of its tokens: all of it fare alike.
void Masks::step_group(MaskStore::Row &row, int64_t group, int64_t at, Stack stack) {
  const auto text = grammar_.text_of(store.one_of(group));
  recogniser_.begin(at, stack);
  if (recogniser_.allows(text)) store.add_group(row, group);
  work_.spend(static_cast<int64_t>(text.size()));
}

// Adds a token if it is allowed. One that continues the one before it, as rows of dashes do, continues
// its configurations.
void Masks::step_token(MaskStore::Row &row, int64_t token, int64_t at, Stack stack,
                       LastToken &last) {
  const auto text = grammar_.text_of(token);
  if (text.empty()) return;
  if (!continues(last, text)) {
    recogniser_.begin(at, stack);
    last.done = 0;
  }
  last.text = text;
  if (!recogniser_.configurations.empty()) {
    recogniser_.step_over(text.subspan(last.done, text.size() - 1 - last.done));
    last.done = text.size() - 1;
  }
  if (!recogniser_.configurations.empty() && recogniser_.allows(text.subspan(last.done)))
    store.add_token(row, token);
  work_.spend(static_cast<int64_t>(text.size()));
}

// Not with a lookahead: what a token has ended so far is not kept between tokens.
bool Masks::continues(const LastToken &last, std::span<const uint8_t> text) const {
  return last.done > 0 && last.done < text.size() && grammar_.lookahead == Grammar::kUnlimited &&
         std::ranges::equal(last.text.first(last.done), text.first(last.done));
}

}  // namespace cdec::grammars
