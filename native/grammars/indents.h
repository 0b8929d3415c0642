// Blocks that indentation opens and closes: what an indenter makes of terminals.
//
// With an indenter the stack of a parser configuration is a *pair*: a vertex that names its *blocks*,
// above the parser's stack. Blocks are a stack of vertices themselves, so that equal ones are one:
// one for a block at a column, one for a bracket that is open; at the bottom the block at column 0.
// Brackets stand above blocks alone, for no block begins within them.
#pragma once

#include "stacks.h"

namespace cdec::grammars {

// What the parser gets for a terminal: itself, nothing, a failure, or a line break and INDENT or
// DEDENTs, as a number: a line break (1 if odd), then twice 1 for INDENT, twice 1 + n for n DEDENTs.
using Effect = int32_t;
constexpr Effect kPlain = -1, kDropped = -2, kFails = -3;

// Where a terminal, or a live row, may stand as well: an effect that is a number.
constexpr int32_t as_row(Effect effect) { return -2 - effect; }
constexpr bool is_effect(int64_t row) { return row <= -2; }
constexpr Effect effect_of(int64_t row) { return static_cast<Effect>(-2 - row); }
// An effect without its first terminal.
constexpr Effect rest_of(Effect effect) {
  return effect & 1 ? effect - 1 : effect > 4 ? effect - 2 : 0;
}

class Indents {
 public:
  Indents(const Grammar &grammar, Stacks &stacks) : grammar_(grammar), stacks_(stacks) {}

  // The parser's stack, and the blocks, of a configuration's stack; kNone where it has none.
  Stack parser_stack(Stack stack) const { return is_pair(stack) ? stacks_[stack].below : stack; }
  Stack blocks_of(Stack stack) const {
    return is_pair(stack) ? static_cast<Stack>(stacks_[stack].state - pairs()) : kNone;
  }
  Stack with_blocks(Stack blocks, Stack stack) { return stacks_.vertex(pairs() + blocks, stack); }
  // The stack of the first configuration: no block is open.
  Stack first(Stack stack) {
    return grammar_.is_indented ? with_blocks(stacks_.vertex(base(), kNone), stack) : stack;
  }

  struct Line {
    Effect effect;
    Stack blocks;  // afterwards
  };
  // What the parser gets for a terminal, any but the end of the text; `column` is what the columns
  // of a line break count from, if they count from any.
  Line effect(Stack blocks, int64_t terminal, int64_t column);
  // The effect of the end of the text: a DEDENT for every block.
  Effect dedents(Stack blocks) const;
  // The first terminal of an effect that is a number; -1 where the grammar has none.
  int64_t symbol(Effect effect) const {
    const int64_t at = effect & 1 ? 0 : effect == 2 ? 1 : 2;
    return at < grammar_.columns.indent_symbols.size ? grammar_.columns.indent_symbols[at] : -1;
  }
  // A parser's stack, which may be partial, behind a line break that is dropped: where terminals
  // look around, what stood before the line break is no longer next to what comes.
  Stack without_line(Stack stack);

 private:
  static constexpr int64_t kPairs = 1 << 20, kMostColumns = kPairs - 3;
  enum Role { kNoRole, kOpen, kClose, kNowhere, kColumn };

  int64_t bracket() const { return grammar_.lr_states + 1; }
  int64_t base() const { return grammar_.lr_states + 2; }
  int64_t pairs() const { return grammar_.lr_states + kPairs; }
  bool is_pair(Stack stack) const {
    return grammar_.is_indented && stack >= 0 && stacks_[stack].state >= pairs();
  }
  Line line(Stack blocks, int64_t column);

  const Grammar &grammar_;
  Stacks &stacks_;
};

}  // namespace cdec::grammars
