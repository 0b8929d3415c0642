// The deterministic LR parser. An outcome is the stack after the shift, kFail, or kShiftable.
#include "parser.h"

namespace cdec::grammars {

Stack Parser::compute(Stack stack, int64_t terminal, bool builds) {
  const Stack outcome = indents_.blocks_of(stack) >= 0 ? shift_pair(stack, terminal)
                        : stack >= 0 ? shift_top(stack, terminal, builds, false)
                                     : shift_set(stack, terminal, builds);
  shifts_.set(pack(stack, terminal), outcome);
  work_.spend(1);
  work_.pause();
  return outcome;
}

Stack Parser::compute_any(Stack stack, int64_t row) {
  Stack result = kFail;
  for (const int32_t terminal : grammar_.live(row))
    if (grammar_.is_terminal(terminal) &&
        (grammar_.is_ignored(terminal) || can_shift(stack, terminal))) {
      result = kShiftable;
      break;
    }
  shifts_.set(pack(stack, grammar_.terminals + 1 + row), result);
  return result;
}

// Shifts what an indenter makes of a terminal, or of the end of the text.
Stack Parser::shift_pair(Stack pair, int64_t terminal) {
  const Stack blocks = indents_.blocks_of(pair);
  Stack stack = indents_.parser_stack(pair);
  const bool is_end = terminal == grammar_.terminals;
  const Indents::Line line = is_end ? Indents::Line{indents_.dedents(blocks), blocks}
                                    : indents_.effect(blocks, terminal, 0);
  if (line.effect == kDropped) return indents_.with_blocks(blocks, indents_.without_line(stack));
  for (Effect left = line.effect; left > 0 && stack != kFail; left = rest_of(left)) {
    const int64_t symbol = indents_.symbol(left);
    stack = symbol >= 0 ? shift(stack, symbol) : kFail;
  }
  if (stack == kFail || line.effect == kFails) return kFail;
  if (line.effect == kPlain || is_end) stack = shift(stack, terminal);
  return stack == kFail ? kFail : indents_.with_blocks(line.blocks, stack);
}

Stack Parser::shift_partial(Stack stack, int64_t terminal, bool builds) {
  if (stacks_.count(stack) > kMany) return shift_general(stack, terminal, builds, true);
  Stack result = kFail;
  for (int64_t i = 0; i < stacks_.count(stack); ++i) {
    const Stack after = shift_top(stacks_.member(stack, i), terminal, builds, true);
    if (after == kShiftable) return after;
    result = stacks_.unite(result, after);
  }
  return result;
}

// Shifts on the stacks with one vertex on top. Where a single stack meets several actions, or a
// reduction ends within a set, the generalised parser does it.
Stack Parser::shift_top(Stack top, int64_t terminal, bool builds, bool is_partial) {
  const size_t before = deferred.size();
  const Stack outcome = shift_single(top, terminal, builds, is_partial);
  if (outcome != kUndecided) return outcome;
  deferred.resize(before);
  return shift_general(top, terminal, builds, is_partial);
}

Stack Parser::shift_set(Stack stack, int64_t terminal, bool builds) {
  if (stacks_.count(stack) > kMany) return shift_general(stack, terminal, builds, false);
  Stack result = kFail;
  for (int64_t i = 0; i < stacks_.count(stack); ++i) {
    const Stack top = stacks_.member(stack, i);
    if (builds)
      result = stacks_.unite(result, shift(top, terminal));
    else if (can_shift(top, terminal))
      return kShiftable;
  }
  return result;
}

// Reduces until a shift or a failure, one action an entry. More LR states pushed than there are
// means that one repeats and they would grow for ever; reductions onto one place end at kMostIdle. So
// every sequence of reductions ends, at worst in failure.
Stack Parser::shift_single(Stack top, int64_t terminal, bool builds, bool is_partial) {
  int64_t count = 0, steps = 0, idle = 0, state = stacks_[top].state;
  Stack outcome = kFail;
  checkpoints_.clear();
  while (true) {
    const int64_t lr_state = grammar_.lr_of(state), action = grammar_.action(lr_state, terminal);
    if (action < 0) break;
    const int64_t value = grammar_.columns.action_values[action], rule = ~value;
    if (rule >= grammar_.rules) break;
    const int64_t length = rule >= 0 ? grammar_.columns.rule_length[rule] : 0;
    if (length < 0) break;
    if (grammar_.has_more(lr_state, action, terminal)) return kUndecided;
    if (value >= 0) {
      outcome = builds ? push(top, count, value) : kShiftable;
      break;
    }
    const int64_t nonterminal = grammar_.columns.rule_lhs[rule];
    // subtle: the oldest is the first, but for what is empty.
    int32_t age = 0;
    const auto note_age = [&](int64_t of) { age = std::max(age, grammar_.age_of(of)); };
    if (grammar_.counts_rules())
      std::for_each(pushed_.begin() + std::max<int64_t>(count - length, 0), pushed_.begin() + count,
                    note_age);
    if (length > count) {
      int64_t left = length - count;
      for (; left > 0 && top >= 0 && stacks_[top].state != grammar_.lr_states; --left) {
        note_age(stacks_[top].state);
        top = stacks_[top].below;
      }
      idle = 0;
      if (top < 0) return top != kNone ? kUndecided : kFail;
      if (stacks_[top].state == grammar_.lr_states) {
        deferred.push_back(deferred_reduction(nonterminal, left));
        return kFail;
      }
    }
    count = std::max<int64_t>(count - length, 0);
    const int64_t base = count > 0 ? pushed_[count - 1] : stacks_[top].state;
    state = grammar_.goto_state(grammar_.lr_of(base), nonterminal);
    if (state < 0 || count > grammar_.lr_states || idle > kMostIdle) break;
    if (grammar_.is_too_old(rule, age)) break;
    state = grammar_.with_age(state, age);
    pushed_[count++] = static_cast<int32_t>(state);
    ++steps, ++idle;
    if (steps < kCheckpointsAfter || count != 1 || is_partial) continue;
    const int64_t known = checkpoint(state, top, terminal);
    if (known != Table::kAbsent && !(builds && known == kShiftable)) {
      outcome = static_cast<Stack>(known);
      break;
    }
  }
  work_.spend(steps);
  if (is_partial) return outcome;
  work_.keeps |= steps >= kKeptAfter;
  for (const Stack place : checkpoints_) shifts_.set(pack(place, terminal), outcome);
  return outcome;
}

// The known outcome of a stack within a long sequence of reductions, or kAbsent: then the sequence's
// outcome will be noted for this stack too. So closing a right-recursive list costs its length once,
// not once at every position.
int64_t Parser::checkpoint(int64_t state, Stack below, int64_t terminal) {
  const Stack place = stacks_.vertex(state, below);
  const int64_t known = shifts_.find(pack(place, terminal));
  if (known == Table::kAbsent && static_cast<int64_t>(checkpoints_.size()) < kMostCheckpoints)
    checkpoints_.push_back(place);
  return known;
}

// The stack of a base, the LR states pushed and the one after the shift.
Stack Parser::push(Stack base, int64_t count, int64_t target) {
  if (target >= grammar_.lr_states) return kFail;
  for (int64_t i = 0; i < count; ++i) base = stacks_.vertex(pushed_[i], base);
  return stacks_.vertex(target, base);
}

}  // namespace cdec::grammars
