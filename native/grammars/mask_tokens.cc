// Tokens with too many configurations for a tree, read byte by byte above partial stacks.
//
// For the generalised parser, and as items of their own. A terminal that waits for the stack waits at
// a byte of the token: its row tells both.
#include "mask_automaton.h"

namespace cdec::grammars {

// Reads the tokens from the tree's root.
void MaskAutomaton::read_tokens(Stack stack) {
  if (!reads_tokens()) return;
  for (int64_t i = 0; i < tree_.tokens.size(); ++i) {
    const int64_t token = grammar_.columns.verify_tokens[tree_.tokens.begin + i];
    recogniser_.begin(tree_state_[tree_.number], stack);
    if (allows(token, tree_.item_of_token(i), 0)) allow(tree_.groups.size() + i);
  }
}

// Goes on with a token that waited at its end, or at the byte that its row tells.
void MaskAutomaton::resume_token(int64_t place, int64_t row, Stack stack) {
  const int64_t item = tree_.item_of_token(place);
  const int64_t token = grammar_.columns.verify_tokens[tree_.tokens.begin + place];
  bool is_allowed = false;
  if (row < kWithin) {
    is_allowed = can_shift_row(stack, row, item);
  } else if (grammar_.terminals > 0) {
    const auto position = static_cast<size_t>((row - kWithin) / grammar_.terminals);
    const int64_t terminal = (row - kWithin) % grammar_.terminals;
    const Stack after = shifted(item, position, terminal, stack);
    if (after == kFail) return;
    recogniser_.begin(recogniser_.start_after(after, terminal), after);
    is_allowed = allows(token, item, position + 1);
  }
  if (is_allowed) allow(tree_.groups.size() + place);
}

// The partial stack after a terminal at a byte of a token; notes what waits.
Stack MaskAutomaton::shifted(int64_t item, size_t position, int64_t terminal, Stack stack) {
  const PartialOutcome outcome = partial_.shift(stack, terminal);
  defer(outcome.deferred, item,
        kWithin + static_cast<int64_t>(position) * grammar_.terminals + terminal);
  return outcome.stack;
}

// Moves the configurations over a token's bytes from a position; tells whether it is allowed whatever
// lies below, and notes what waits.
bool MaskAutomaton::allows(int64_t token, int64_t item, size_t position) {
  const auto text = grammar_.text_of(token);
  if (text.empty()) return false;
  for (; position < text.size(); ++position)
    recogniser_.step(text[position], false, [&](Stack stack, int32_t terminal) {
      return shifted(item, position, terminal, stack);
    }, [](const Configuration &) {});
  for (const auto &[at, stack, ended, tokens, since] : recogniser_.configurations)
    if (grammar_.is_start(at) || (at >= 0 && can_shift_row(stack, grammar_.live_row(at), item)))
      return true;
  return false;
}

}  // namespace cdec::grammars
