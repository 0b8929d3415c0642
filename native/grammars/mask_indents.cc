// What the line breaks and brackets of a tree do above some open blocks.
#include "mask_automaton.h"

namespace cdec::grammars {

// The initial state of a scanner state above some blocks: the tree's own where
// nothing in the tree asks for blocks. O(nodes and branches).
int64_t MaskAutomaton::compute_initial(int64_t at, Stack blocks) {
  if (at < 0 || at >= grammar_.scanner_states) return 0;
  const Tree tree = trees_[grammar_.tree_of_state(at)];
  const int64_t row = grammar_.row_of(at);
  const cdec_i32 &columns = grammar_.columns.state_column;
  const int64_t column = row < columns.size ? columns[row] : 0;
  found_.clear();
  ++initial_count_;
  note_nodes(tree, blocks, column);
  note_branches(tree, blocks, column);
  int64_t state = tree.number;
  if (!found_.empty()) {
    std::ranges::sort(found_);
    lists_.begin(tree.number << 2 | kInitial);
    lists_.append(-1);
    for (const auto &[item, code] : found_) lists_.append(pack(item, code));
    state = lists_.end();
  }
  initial_.set(pack(at, blocks), state);
  return state;
}

// Finds the path nodes with effects, and the blocks at each.
void MaskAutomaton::note_nodes(const Tree &tree, Stack blocks, int64_t column) {
  node_blocks_.assign(tree.nodes.size(), kNone);
  for (int64_t item = 0; item < tree.nodes.size(); ++item) {
    const int64_t parent = grammar_.columns.path_parent[tree.nodes.begin + item];
    const int64_t terminal = grammar_.columns.path_terminal[tree.nodes.begin + item];
    const Stack above = parent < 0 ? blocks : parent < item ? node_blocks_[parent] : kNone;
    Indents::Line line{kPlain, above};
    if (above >= 0 && terminal >= 0) line = indents_.effect(above, terminal, column);
    node_blocks_[item] = line.effect == kFails ? kNone : line.blocks;
    if (line.effect != kPlain) found_.emplace_back(item, line.effect);
  }
}

// Finds the branches whose live terminals are others above the blocks.
void MaskAutomaton::note_branches(const Tree &tree, Stack blocks, int64_t column) {
  for (int64_t branch = tree.branches.begin; branch < tree.branches.end; ++branch) {
    const int64_t path = grammar_.columns.branch_path[branch];
    const int64_t row = grammar_.columns.branch_live[branch];
    const Stack here = path < 0                   ? blocks
                       : path < tree.nodes.size() ? node_blocks_[path]
                                                  : kNone;
    if (row < 0 || here < 0) continue;
    const int64_t code = row_above(row, here, column);
    if (code != kPlain) found_.emplace_back(tree.item_of_branch(branch), code);
  }
}

// What of a live row can come above blocks, remembered for the branches of one initial state.
int64_t MaskAutomaton::row_above(int64_t row, Stack blocks, int64_t column) {
  if (!grammar_.is_row(row)) return kFails;
  rows_above_.resize(grammar_.live_rows);
  RowAbove &known = rows_above_[row];
  if (known.initial != initial_count_ || known.blocks != blocks)
    known = {initial_count_, compute_row_above(row, blocks, column), blocks};
  return known.code;
}

// A part of the row, or an effect. kPlain: the row itself; kDropped: something that brackets drop, so
// nothing is asked; kFails: none. Where a line break alone can be one, those with blocks behind them
// say nothing more.
int64_t MaskAutomaton::compute_row_above(int64_t row, Stack blocks, int64_t column) {
  bool is_same = true, has_line = false;
  for (const int32_t terminal : grammar_.live(row)) {
    const Effect code = indents_.effect(blocks, terminal, column).effect;
    if (code == kDropped) return kDropped;
    is_same &= code == kPlain;
    has_line |= code == 1;
  }
  return is_same ? kPlain : part_above(row, blocks, column, has_line);
}

// The row of the live terminals that can come, and of effects, each once; kFails: none.
int64_t MaskAutomaton::part_above(int64_t row, Stack blocks, int64_t column, bool has_line) {
  lists_.begin(kPart);
  auto &part = lists_.written;
  for (const int32_t terminal : grammar_.live(row)) {
    const Effect code = indents_.effect(blocks, terminal, column).effect;
    if (code == kFails || (has_line && code > 1)) continue;
    const int64_t found = code > 0 ? as_row(code) : terminal;
    if (code <= 0 || std::find(part.begin() + 1, part.end(), found) == part.end())
      part.push_back(found);
  }
  return part.size() == 1 ? kFails : grammar_.live_rows + lists_.end();
}

}  // namespace cdec::grammars
