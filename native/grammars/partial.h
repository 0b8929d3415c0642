// Shifting on the top part of a stack whose rest is not known yet: what the automaton of masks asks.
//
// A *partial stack* ends in the unknown suffix: a vertex with an LR state of its own, which has no
// actions. A reduction that pops into it is deferred (`Parser::deferred_reduction`). So a terminal's
// effect on any stack is known from its top: it pops what it reads and pushes what it shifts.
#pragma once

#include "mask_lists.h"
#include "parser.h"

namespace cdec::grammars {

// The stack after a terminal, or whether a live row's terminals can be shifted; and what is deferred
// until the stack below is known, a list of reductions or checks (0: nothing). A row of a check from
// `live_rows` on is a part of a row: the list of that number less.
struct PartialOutcome {
  Stack stack;
  int64_t deferred;

  int64_t packed() const { return pack(stack, deferred); }
  static PartialOutcome from(int64_t packed) {
    return {static_cast<Stack>(high_half(packed)), packed & 0xFFFFFFFF};
  }
};

class PartialParser {
 public:
  PartialParser(const Grammar &grammar, Memory &memory, Stacks &stacks, Indents &indents,
                Parser &parser, MaskLists &lists, Work &work)
      : grammar_(grammar),
        stacks_(stacks),
        indents_(indents),
        parser_(parser),
        lists_(lists),
        work_(work),
        outcomes_(&memory.memos) {}

  // The vertex below which nothing is known.
  Stack unknown_suffix() { return stacks_.vertex(grammar_.lr_states, kNone); }
  PartialOutcome shift(Stack stack, int64_t terminal);
  // Whether a live row's terminals can be shifted: kShiftable, or kFail and deferred checks.
  PartialOutcome shift_any(Stack stack, int64_t row);

 private:
  PartialOutcome compute(Stack stack, int64_t terminal, bool builds);
  PartialOutcome compute_any(Stack stack, int64_t row);
  Stack shift_effect(Stack stack, Effect effect);
  Stack try_terminal(Stack stack, int64_t terminal);
  void defer_checks(int64_t reductions, int64_t terminal);
  int64_t deferred_reductions();
  int64_t deferred_checks();

  const Grammar &grammar_;
  Stacks &stacks_;
  Indents &indents_;
  Parser &parser_;
  MaskLists &lists_;
  Work &work_;
  Table outcomes_;  // (stack, terminal), or (stack, terminals + live row) -> outcome
  std::vector<Pair> deferred_;  // (deferred reduction, terminal) of a row
};

}  // namespace cdec::grammars
