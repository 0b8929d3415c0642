#include "readings.h"

namespace cdec::grammars {

namespace {

// Appends a reading unless it equals an earlier one, which takes precedence.
void append(std::vector<Reading> &readings, const Reading &reading) {
  for (const Reading &each : readings)
    if (each.at == reading.at && each.stack == reading.stack && each.ended == reading.ended) return;
  readings.push_back(reading);
}

}  // namespace

int64_t Reader::start_after(Stack stack, int64_t terminal) const {
  int64_t context = -1;
  if (grammar_.is_general) {
    context = grammar_.columns.terminal_context[terminal];
  } else if (stack = indents_.parser_stack(stack); stack >= 0) {
    const int64_t state = stacks_[stack].state;
    context = state < grammar_.lr_states ? grammar_.columns.lr_context[state] : -1;
  }
  const int64_t start = grammar_.start_of(context);
  return start < 0 ? -1 : start + grammar_.scanner_states;
}

// The stack after a completed terminal (the same after an ignored one), or kFail.
Stack Reader::after(Stack stack, int64_t terminal) {
  if (!grammar_.is_terminal(terminal)) return kFail;
  return grammar_.is_ignored(terminal) ? stack : parser_.shift(stack, terminal);
}

void Reader::step_over(Text text, bool counts) {
  for (const uint8_t byte : text) {
    if (readings.empty()) return;
    next_.clear();
    grammar_.is_general ? step_set(byte, counts) : step_ordered(byte, counts);
    readings.swap(next_);
  }
}

// Moves ordered readings; one that completes a single terminal ends the list. Several are ends of
// which the text behind them chooses: the readings after them stay.
void Reader::step_ordered(uint8_t byte, bool counts) {
  for (const Reading &reading : readings) {
    const int64_t at = grammar_.scan(reading.at, byte);
    if (at < 0) continue;
    if (grammar_.is_live(at))
      append(next_, {static_cast<int32_t>(at), reading.stack, reading.ended});
    const auto matches = grammar_.matches(at);
    for (const int32_t terminal : matches) {
      const Stack stack = after(reading.stack, terminal);
      if (stack == kFail) continue;
      const auto fresh = static_cast<int32_t>(start_after(stack, terminal));
      append(next_, {fresh, stack, counts ? reading.ended + 1 : 0});
    }
    if (matches.size() == 1) break;
  }
}

// Moves a set of readings: every completed terminal adds one.
void Reader::step_set(uint8_t byte, bool counts) {
  for (const Reading &reading : readings) {
    const int64_t at = grammar_.scan(reading.at, byte);
    if (at < 0) continue;
    if (grammar_.is_live(at))
      unite(next_, {static_cast<int32_t>(at), reading.stack, reading.ended});
    for (const int32_t terminal : grammar_.matches(at)) {
      const Stack stack = after(reading.stack, terminal);
      if (stack == kFail) continue;
      const auto fresh = static_cast<int32_t>(start_after(stack, terminal));
      unite(next_, {fresh, stack, counts ? reading.ended + 1 : 0});
    }
  }
}

void Reader::unite(std::vector<Reading> &readings, const Reading &reading) {
  for (Reading &each : readings)
    if (each.at == reading.at && each.ended == reading.ended) {
      each.stack = stacks_.unite(each.stack, reading.stack);
      return;
    }
  readings.push_back(reading);
}

void Reader::read(Text text, int64_t lookahead) {
  step_over(text, lookahead != Grammar::kUnlimited);
  finish(lookahead);
}

// Keeps the readings that matter after a token, none if it is not allowed.
//
// Of ordered readings one that is not viable is kept before others, because it takes precedence over
// them; a set is sorted. The token is allowed if a viable reading has ended no more terminals within
// it than the lookahead permits.
void Reader::finish(int64_t lookahead) {
  size_t kept = 0;
  bool allowed = false;
  next_.clear();
  for (const auto &[at, stack, ended] : readings) {
    const bool is_start = grammar_.is_start(at);
    const bool is_viable =
        is_start || (at >= 0 && parser_.can_shift_any(stack, grammar_.live_row(at)));
    allowed |= is_viable && ended - is_start <= lookahead;
    if (!grammar_.is_general) {
      append(next_, {at, stack});
    } else if (is_viable) {
      const auto place = std::ranges::lower_bound(next_, at, {}, &Reading::at);
      if (place != next_.end() && place->at == at)
        place->stack = stacks_.unite(place->stack, stack);
      else
        next_.insert(place, {at, stack});
    }
    if (is_viable) kept = next_.size();
  }
  next_.resize(allowed ? kept : 0);
  readings.swap(next_);
}

bool Reader::allows(Text text) {
  if (text.empty()) return false;
  step_over(text.first(text.size() - 1));
  for (const Reading &reading : readings) {
    const int64_t at = grammar_.scan(reading.at, text.back());
    if (at < 0) continue;
    const auto matches = grammar_.matches(at);
    if (reading.ended <= grammar_.lookahead &&
        (parser_.can_shift_any(reading.stack, grammar_.live_row(at)) ||
         ends_any(reading.stack, matches)))
      return true;
    if (matches.size() == 1 && !grammar_.is_general) break;
  }
  return false;
}

// Whether one of some matched terminals can be shifted, or is ignored.
bool Reader::ends_any(Stack stack, std::span<const int32_t> terminals) {
  return std::ranges::any_of(terminals, [&](int32_t terminal) {
    return grammar_.is_terminal(terminal) &&
           (grammar_.is_ignored(terminal) || parser_.can_shift(stack, terminal));
  });
}

}  // namespace cdec::grammars
