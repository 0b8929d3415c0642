#include "partial.h"

namespace cdec::grammars {

PartialOutcome PartialParser::shift(Stack stack, int64_t terminal) {
  if (!grammar_.is_terminal(terminal)) return {kFail, 0};
  if (grammar_.is_ignored(terminal)) return {stack, 0};
  const int64_t known = outcomes_.find(pack(stack, terminal));
  if (known == Table::kAbsent || high_half(known) == kShiftable)
    return compute(stack, terminal, true);
  return PartialOutcome::from(known);
}

PartialOutcome PartialParser::compute(Stack stack, int64_t terminal, bool builds) {
  parser_.deferred.clear();
  const Stack after = parser_.shift_partial(stack, terminal, builds);
  const PartialOutcome outcome{after, deferred_reductions()};
  outcomes_.set(pack(stack, terminal), outcome.packed());
  work_.spend(1);
  work_.pause();
  return outcome;
}

// The list of what was deferred, each once.
int64_t PartialParser::deferred_reductions() {
  auto &found = parser_.deferred;
  if (found.empty()) return 0;
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  lists_.begin(kDeferredReductions);
  for (const int64_t reduction : found) lists_.append(reduction);
  return lists_.end();
}

PartialOutcome PartialParser::shift_any(Stack stack, int64_t row) {
  if (row < 0 || row >= grammar_.live_rows + lists_.size()) return {kFail, 0};
  const int64_t known = outcomes_.find(pack(stack, grammar_.terminals + row));
  return known != Table::kAbsent ? PartialOutcome::from(known) : compute_any(stack, row);
}

PartialOutcome PartialParser::compute_any(Stack stack, int64_t row) {
  const bool is_part = row >= grammar_.live_rows;
  const int64_t part = row - grammar_.live_rows;
  const int64_t count =
      is_part ? lists_.length(part) : static_cast<int64_t>(grammar_.live(row).size());
  PartialOutcome outcome{kFail, 0};
  deferred_.clear();
  for (int64_t i = 0; i < count && outcome.stack == kFail; ++i) {
    const int64_t terminal = is_part ? lists_.item(part, i) : grammar_.live(row)[i];
    if (try_terminal(stack, terminal) != kFail) outcome.stack = kShiftable;
  }
  if (outcome.stack == kFail && !deferred_.empty()) outcome.deferred = deferred_checks();
  outcomes_.set(pack(stack, grammar_.terminals + row), outcome.packed());
  work_.spend(1);
  work_.pause();
  return outcome;
}

// Tries a terminal of a row; kFail if it is not shifted.
Stack PartialParser::try_terminal(Stack stack, int64_t terminal) {
  if (is_effect(terminal)) return shift_effect(stack, effect_of(terminal));
  if (!grammar_.is_terminal(terminal)) return kFail;
  if (grammar_.is_ignored(terminal)) return stack;
  const int64_t known = outcomes_.find(pack(stack, terminal));
  const PartialOutcome outcome = known != Table::kAbsent ? PartialOutcome::from(known)
                                                         : compute(stack, terminal, false);
  defer_checks(outcome.deferred, terminal);
  return outcome.stack;
}

// Tries what an indenter makes of a line break, one terminal after another.
Stack PartialParser::shift_effect(Stack stack, Effect effect) {
  for (; effect > 0 && stack != kFail; effect = rest_of(effect)) {
    const PartialOutcome outcome = shift(stack, indents_.symbol(effect));
    defer_checks(outcome.deferred, as_row(effect));
    stack = outcome.stack;
  }
  return stack;
}

void PartialParser::defer_checks(int64_t reductions, int64_t terminal) {
  for (int64_t i = 0; i < lists_.length(reductions); ++i)
    deferred_.emplace_back(lists_.item(reductions, i), terminal);
}

// The list of deferred checks: the terminals that wait for one reduction are a row.
int64_t PartialParser::deferred_checks() {
  std::ranges::sort(deferred_);
  std::vector<int64_t> found;
  for (size_t i = 0; i < deferred_.size();) {
    const int64_t reduction = deferred_[i].first;
    lists_.begin(kPart);
    for (; i < deferred_.size() && deferred_[i].first == reduction; ++i)
      lists_.append(deferred_[i].second);
    found.push_back(reduction);
    found.push_back(grammar_.live_rows + lists_.end());
  }
  lists_.begin(kDeferredChecks);
  for (const int64_t item : found) lists_.append(item);
  return lists_.end();
}

}  // namespace cdec::grammars
