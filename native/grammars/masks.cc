#include "masks.h"

namespace cdec::grammars {

int64_t Masks::of(std::span<const Reading> readings) {
  int64_t mask = -1;
  for (size_t i = readings.size(); i-- > 0;) {
    int64_t at = readings[i].at;
    if (grammar_.is_start(at)) at -= grammar_.scanner_states;
    const int64_t own = of_reading(at, readings[i].stack);
    const int64_t taken = grammar_.columns.tree_taken[grammar_.tree_of_state(at)];
    mask = mask < 0 ? own : store.join(own, taken, mask);
  }
  return mask;
}

int64_t Masks::of_reading(int64_t at, Stack stack) {
  if (automaton_.reads_tokens()) return read_or_step(at, stack);
  const int64_t tree = grammar_.tree_of_state(at);
  const int64_t mask = read(at, tree, stack);
  if (trees_[tree].tokens.size() == 0) return mask;
  return store.join(mask, -1, stepped(at, stack));
}

int64_t Masks::read(int64_t at, int64_t tree, Stack stack) {
  const int64_t mask = follow(automaton_.first(at, tree, stack), indents_.parser_stack(stack));
  return mask != kOpen ? mask : run(left_);
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
    if (mask != kOpen) return mask;
    if (stacks_.count(left_.stack) <= kWide) return run(left_);
  } catch (const Stopped &) {
    if (work_.is_over()) throw;
  }
  return stepped(at, stack);
}

// Reads a stack; kOpen where it forks, or has more LR states that matter than are read at once.
int64_t Masks::follow(int64_t state, Stack stack) {
  for (int64_t left = at_once_; stack != kNone && !automaton_.is_final(state); --left) {
    if (stack < 0 || left == 0) {
      const int64_t known = runs_.find(pack(state, stack));
      left_ = {state, stack};
      return known != Table::kAbsent ? known : kOpen;
    }
    state = automaton_.step(state, stacks_[stack].state);
    stack = stacks_[stack].below;
  }
  return of_state(state);
}

// The mask of a state and what is left of a stack, noted. Pairs that wait for others stand in a list,
// so that deep stacks need no recursion.
int64_t Masks::run(Left left) {
  open_.assign(1, left);
  int64_t mask = kOpen;
  while (!open_.empty()) {
    const size_t top = open_.size() - 1;
    const Left here = open_[top];
    mask = union_of_ways(here);
    if (mask == kOpen) continue;
    runs_.set(pack(here.state, here.stack), mask);
    open_.resize(top);
    work_.spend(1 + stacks_.count(here.stack));
    work_.pause();
  }
  return mask;
}

// Reads a stack along all its ways; kOpen if one of them waits for a pair that was put on the list.
int64_t Masks::union_of_ways(Left left) {
  if (stacks_.count(left.stack) == 0) return of_state(left.state);
  int64_t mask = -1;
  bool is_open = false;
  for (int64_t i = 0; i < stacks_.count(left.stack); ++i) {
    const Vertex top = stacks_[stacks_.member(left.stack, i)];
    const int64_t own = follow(automaton_.step(left.state, top.state), top.below);
    if (own == kOpen) {
      is_open = true;
      open_.push_back(left_);
    } else {
      mask = mask < 0 ? own : store.join(mask, -1, own);
    }
  }
  return is_open ? kOpen : mask;
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
  Walk walk;
  for (int64_t &i = work.done; i < groups + tree.tokens.size(); ++i) {
    if (i < groups) {
      step_group(work.row, tree.groups.begin + i, at, stack);
    } else {
      const int64_t token = grammar_.columns.verify_tokens[tree.tokens.begin + i - groups];
      step_token(work.row, token, at, stack, walk);
    }
    if (!work_.is_due()) continue;
    ++i;
    work_.pause();
  }
}

// Adds a group by stepping one of its tokens: all of it fare alike.
void Masks::step_group(MaskStore::Row &row, int64_t group, int64_t at, Stack stack) {
  const auto text = grammar_.text_of(store.one_of(group));
  reader_.begin(at, stack);
  if (reader_.allows(text)) store.add_group(row, group);
  work_.spend(static_cast<int64_t>(text.size()));
}

// Adds a token if it is allowed. One that continues the one before it, as rows of dashes do, continues
// its readings.
void Masks::step_token(MaskStore::Row &row, int64_t token, int64_t at, Stack stack, Walk &walk) {
  const auto text = grammar_.text_of(token);
  if (text.empty()) return;
  if (!continues(walk, text)) {
    reader_.begin(at, stack);
    walk.done = 0;
  }
  walk.text = text;
  if (!reader_.readings.empty()) {
    reader_.step_over(text.subspan(walk.done, text.size() - 1 - walk.done));
    walk.done = text.size() - 1;
  }
  if (!reader_.readings.empty() && reader_.allows(text.subspan(walk.done))) store.add_token(row, token);
  work_.spend(static_cast<int64_t>(text.size()));
}

// Not with a lookahead: what a token has ended so far is not kept between tokens.
bool Masks::continues(const Walk &walk, std::span<const uint8_t> text) const {
  return walk.done > 0 && walk.done < text.size() && grammar_.lookahead == Grammar::kUnlimited &&
         std::ranges::equal(walk.text.first(walk.done), text.first(walk.done));
}

}  // namespace cdec::grammars
