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
  parser_.suspended.clear();
  const Stack after = parser_.shift_partial(stack, terminal, builds);
  const PartialOutcome outcome{after, suspensions()};
  outcomes_.set(pack(stack, terminal), outcome.packed());
  work_.spend(1);
  work_.pause();
  return outcome;
}

// The list of what was suspended, each once.
int64_t PartialParser::suspensions() {
  auto &found = parser_.suspended;
  if (found.empty()) return 0;
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  lists_.begin(kSuspensions);
  for (const int64_t suspension : found) lists_.append(suspension);
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
  waiting_.clear();
  for (int64_t i = 0; i < count && outcome.stack == kFail; ++i) {
    const int64_t terminal = is_part ? lists_.item(part, i) : grammar_.live(row)[i];
    if (try_terminal(stack, terminal) != kFail) outcome.stack = kShiftable;
  }
  if (outcome.stack == kFail && !waiting_.empty()) outcome.waiting = questions();
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
  await(outcome.waiting, terminal);
  return outcome.stack;
}

// Tries what an indenter makes of a line break, one terminal after another.
Stack PartialParser::shift_effect(Stack stack, Effect effect) {
  for (; effect > 0 && stack != kFail; effect = rest_of(effect)) {
    const PartialOutcome outcome = shift(stack, indents_.symbol(effect));
    await(outcome.waiting, as_row(effect));
    stack = outcome.stack;
  }
  return stack;
}

void PartialParser::await(int64_t suspensions, int64_t terminal) {
  for (int64_t i = 0; i < lists_.length(suspensions); ++i)
    waiting_.emplace_back(lists_.item(suspensions, i), terminal);
}

// The list of questions: the terminals that wait for one suspension are a row.
int64_t PartialParser::questions() {
  std::ranges::sort(waiting_);
  std::vector<int64_t> found;
  for (size_t i = 0; i < waiting_.size();) {
    const int64_t suspension = waiting_[i].first;
    lists_.begin(kPart);
    for (; i < waiting_.size() && waiting_[i].first == suspension; ++i)
      lists_.append(waiting_[i].second);
    found.push_back(suspension);
    found.push_back(grammar_.live_rows + lists_.end());
  }
  lists_.begin(kQuestions);
  for (const int64_t item : found) lists_.append(item);
  return lists_.end();
}

}  // namespace cdec::grammars
