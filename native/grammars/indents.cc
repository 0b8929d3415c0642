#include "indents.h"

namespace cdec::grammars {

Indents::Line Indents::effect(Stack blocks, int64_t terminal, int64_t column) {
  const cdec_i32 &roles = grammar_.columns.indent_roles;
  const int32_t role = 0 <= terminal && terminal < roles.size ? roles[terminal] : kNoRole;
  if (role <= kNoRole) return {kPlain, blocks};
  const bool in_brackets = stacks_[blocks].state == bracket();
  if (role == kOpen) return {kPlain, stacks_.vertex(bracket(), blocks)};
  if (role == kClose)
    return in_brackets ? Line{kPlain, stacks_[blocks].below} : Line{kFails, blocks};
  if (in_brackets) return {kDropped, blocks};
  const int64_t at = ((role - kColumn) >> 1) + (role & 1 ? column : 0);
  const int64_t most = std::min<int64_t>(grammar_.columns.indent_symbols[3], kMostColumns);
  if (role == kNowhere || at > most) return {kFails, blocks};
  return line(blocks, at);
}

// The effect of a line that begins at a column.
Indents::Line Indents::line(Stack blocks, int64_t column) {
  if (column > stacks_[blocks].state - base()) return {3, stacks_.vertex(base() + column, blocks)};
  int32_t closed = 0;
  while (column < stacks_[blocks].state - base() && stacks_[blocks].below >= 0)
    blocks = stacks_[blocks].below, ++closed;
  if (column != stacks_[blocks].state - base()) return {kFails, blocks};
  return {2 * closed + (closed > 0 ? 2 : 0) + 1, blocks};
}

Effect Indents::dedents(Stack blocks) const {
  int32_t count = 0;
  for (; stacks_[blocks].below >= 0; blocks = stacks_[blocks].below)
    count += stacks_[blocks].state != bracket();
  return 2 * count + (count > 0 ? 2 : 0);
}

Stack Indents::without_line(Stack stack) {
  if (stack < 0) return stack;
  const Vertex top = stacks_[stack];
  const cdec_i32 &plain = grammar_.columns.lr_plain;
  if (top.state >= plain.size || plain[top.state] < 0 || plain[top.state] >= grammar_.lr_states)
    return stack;
  return stacks_.vertex(plain[top.state], top.below);
}

}  // namespace cdec::grammars
