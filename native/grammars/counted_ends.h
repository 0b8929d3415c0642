// Ways to the end of a text from states that count tokens.
//
// Without counts, states have a way to an end each (endings.h). With them its bytes are read again, by
// tokens, and other tokens where some part would have too many; every token must lead to a state whose
// own way is shorter. So whoever follows what is found stays on it. Where all states are few they are
// followed instead, whatever their ways.
#pragma once

#include <utility>

#include "endings.h"

namespace cdec::grammars {

// The terminals under way at a scanner state; none before the first byte of one, or where the columns
// are damaged.
inline std::span<const int32_t> under_way(const Grammar &grammar, int64_t at) {
  if (at < 0 || at >= grammar.scanner_states) return {};
  const int64_t row = grammar.live_row(at);
  return grammar.is_row(row) ? grammar.live(row) : std::span<const int32_t>();
}

// Reads as if no token counted, while it lives.
class Uncounted {
 public:
  explicit Uncounted(Engine &engine) : engine_(engine) { engine_.memos->recogniser.is_counting = false; }
  ~Uncounted() { engine_.memos->recogniser.is_counting = true; }
  Uncounted(const Uncounted &) = delete;

 private:
  Engine &engine_;
};

// Decoding states without counts.
struct PlainStates {
  int64_t intern(const std::vector<Configuration> &configurations) {
    return configurations.empty() ? CDEC_DEAD : states.intern(configurations);
  }
  void load(int64_t state) {
    const auto configurations = states[state];
    engine.memos->recogniser.configurations.assign(configurations.begin(), configurations.end());
  }
  int64_t after(int64_t state, Recogniser::Text text) {
    load(state);
    engine.memos->recogniser.read(text, Grammar::kUnlimited);
    return intern(engine.memos->recogniser.configurations);
  }
  bool may_end(int64_t state) {
    return std::ranges::any_of(states[state], [&](const Configuration &each) {
      return engine.grammar.is_start(each.at) &&
             engine.memos->parser.can_shift(each.stack, engine.grammar.terminals);
    });
  }
  int64_t mask_of(int64_t state) {
    if (state >= static_cast<int64_t>(masks.size())) masks.resize(states.size(), {-1, -1});
    if (masks[state].first != engine.epoch) masks[state] = {engine.epoch, engine.mask_of(states[state])};
    return masks[state].second;
  }

  Engine &engine;
  Lists<Configuration> states{std::pmr::new_delete_resource()};
  std::vector<std::pair<int64_t, int64_t>> masks{};  // by state: epoch and number
};

// `Session`: `engine`, `states`, `may_end`, `read`, and `next_counted`, which is `read` but for states
// that do not lead on.
template <class Session>
class CountedEnds {
 public:
  explicit CountedEnds(Session &session)
      : session_(session),
        engine_(session.engine),
        plain_{engine_},
        spelling_(engine_.tokens),
        endings_(plain_, engine_.tokens) {
    const Grammar &grammar = engine_.grammar;
    for (const auto *numbers : {&grammar.terminal_tokens, &grammar.rule_tokens})
      for (const int32_t most : *numbers)
        if (most >= 0) least_ = std::min(least_, most);
  }

  // Whether no part that is begun, at a state or within so many tokens behind it, comes to its number.
  bool has_room(int64_t state, int64_t needed) {
    if (needed > least_) return false;
    const Grammar &grammar = engine_.grammar;
    return std::ranges::all_of(session_.states[state], [&](const Configuration &each) {
      // A rule that the terminal under way begins is not on the stack yet.
      if ((each.tokens >> 1) + needed > least_) return false;
      if (engine_.memos->parser.room(each.stack) - each.since < needed) return false;
      return std::ranges::all_of(under_way(grammar, each.at), [&](int32_t terminal) {
        const int64_t most = grammar.most_tokens(terminal);
        return most < 0 || most - (each.tokens >> 1) >= needed;
      });
    });
  }

  // The fewest tokens that are found from a state to an end; kFarEnd where none are.
  int64_t fewest(int64_t state) {
    if (known(state) != kUnknown) return fewest_[state];
    std::vector<Frame> frames;
    open(frames, state);
    while (!frames.empty()) {
      Frame &frame = frames.back();
      if (const int64_t found = known(frame.state); found != kUnknown) {
        frames.pop_back();
      } else if (frame.tried == frame.ends.size()) {
        fewest_[frame.state] = kFarEnd;
      } else if (frame.child < 0 && !step(frame)) {
        ++frame.tried;
      } else if (const int64_t behind = known(frame.child); behind == kUnknown) {
        open(frames, frame.child);
      } else if (behind < kFarEnd) {
        fewest_[frame.state] = behind + 1;
      } else {
        frame.child = -1, ++frame.tried;
      }
    }
    return fewest_[state];
  }

  // The most of these behind any token, if no part had any number.
  int64_t plain_ahead(int64_t state) {
    const int64_t plain = plain_of(state);
    const Uncounted uncounted(engine_);
    return endings_.ahead(plain);
  }
  int64_t plain_mask(int64_t state) {
    const int64_t plain = plain_of(state);
    const Uncounted uncounted(engine_);
    return plain_.mask_of(plain);
  }

  // Says what is known of a state by other means.
  void note(int64_t state, int64_t fewest) {
    known(state);
    fewest_[state] = fewest;
  }

 private:
  static constexpr int64_t kUnknown = -1;

  struct End {
    int64_t fewest, length;  // tokens that the way needs from here on; bytes up to here
  };
  // A state whose way is tried: the tokens that begin it, and the state behind that at hand.
  struct Frame {
    int64_t state, length = 0;  // of the way
    std::vector<uint8_t> text{};
    std::vector<End> ends{};
    size_t tried = 0;
    int64_t child = -1;
  };

  int64_t known(int64_t state) {
    if (state >= static_cast<int64_t>(fewest_.size())) fewest_.resize(session_.states.size(), kUnknown);
    return fewest_[state];
  }

  int64_t plain_of(int64_t state) {
    if (state >= static_cast<int64_t>(plains_.size())) plains_.resize(session_.states.size(), kUnknown);
    if (plains_[state] != kUnknown) return plains_[state];
    const Uncounted uncounted(engine_);
    Recogniser &recogniser = engine_.memos->recogniser;
    std::vector<Configuration> found;
    for (const Configuration &each : session_.states[state])
      found.push_back({each.at, engine_.memos->parser.ageless(each.stack)});
    recogniser.configurations = std::move(found);
    recogniser.finish(Grammar::kUnlimited);
    return plains_[state] = plain_.intern(recogniser.configurations);
  }

  // Begins to try the tokens that the way of a state begins with, those first that leave the fewest.
  void open(std::vector<Frame> &frames, int64_t state) {
    if (session_.may_end(state)) {
      note(state, 0);
      return;
    }
    Frame frame{state};
    int64_t at = plain_of(state);
    if (at < 0) {
      note(state, kFarEnd);
      return;
    }
    const Uncounted uncounted(engine_);
    if (const int64_t all = endings_.fewest(at); all < kFarEnd && has_room(state, all)) {
      note(state, all);
      return;
    }
    frame.length = endings_.way(at).length;
    int32_t node = -1;
    while (endings_.fewest(at) < kFarEnd) {
      const Way way = endings_.way(at);
      if (way.next < 0 || (node = spelling_.child_of(node, way.byte)) < 0) break;
      frame.text.push_back(static_cast<uint8_t>(way.byte));
      at = way.next;
      if (spelling_.has_token(node))
        frame.ends.push_back({endings_.fewest(at), static_cast<int64_t>(frame.text.size())});
    }
    std::ranges::sort(frame.ends, {}, [](const End &end) { return std::pair(end.fewest, -end.length); });
    frames.push_back(std::move(frame));
  }

  // Follows the token at hand; false where that leads nowhere, or to no shorter way.
  bool step(Frame &frame) {
    const int64_t length = frame.ends[frame.tried].length;
    engine_.work.spend(1 + length);
    engine_.work.stop();
    const int64_t after =
        session_.next_counted(frame.state, {frame.text.data(), static_cast<size_t>(length)});
    if (after < 0) return false;
    if (!session_.may_end(after)) {
      const int64_t plain = plain_of(after);
      if (plain < 0) return false;
      const Uncounted uncounted(engine_);
      if (endings_.fewest(plain) >= kFarEnd || endings_.way(plain).length >= frame.length) return false;
    }
    frame.child = after;
    return true;
  }

  Session &session_;
  Engine &engine_;
  PlainStates plain_;
  const Spelling spelling_;
  Endings<PlainStates> endings_;
  std::vector<int64_t> fewest_, plains_;  // by state
  int32_t least_ = Parser::kFarOff;       // number of all
};

}  // namespace cdec::grammars
