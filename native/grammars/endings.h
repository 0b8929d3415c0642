// Ways to the end of a text: from each decoding state one, a byte at a time, and its fewest tokens.
//
// The way is chosen by the state alone, so that whoever follows it stays on it: it goes on by the
// byte behind which the fewest bytes seem to be needed, and a few more bytes are tried where no byte
// seems to lead nearer, such as a blank that must stand between two terminals. It counts where it
// comes to an end.
#pragma once

#include <unordered_set>

#include "engine.h"
#include "fewest_bytes.h"
#include "spelling.h"

namespace cdec::grammars {

// `Session`: `engine`, `states`, `intern`, `load`, `may_end` and `mask_of`.
template <class Session>
class Endings {
 public:
  Endings(Session &session, const cdec_token_trie &tokens)
      : session_(session),
        engine_(session.engine),
        spelling_(tokens),
        bytes_(engine_.grammar, engine_.stacks, engine_.indents) {
    choose_bytes();
  }

  // The fewest tokens that spell the way from a state; 0 where the text may end.
  int32_t fewest(int64_t state) {
    std::vector<int32_t> path;
    std::unordered_set<int32_t> on_path;
    auto at = static_cast<int32_t>(state);
    for (; !is_known(at); at = ways_[at].next) {
      if (session_.may_end(at)) {
        ways_[at].fewest = 0;
        break;
      }
      if (!on_path.insert(at).second || (ways_[at].next < 0 && !find_next(at))) {
        // Round in a circle, or no further: so from each that leads here.
        ways_[at].fewest = kFarEnd;
        break;
      }
      if (path.size() == kLongest) return ways_[state].fewest = kFarEnd;
      path.push_back(at);
    }
    for (; !path.empty(); path.pop_back()) measure(path.back());
    return ways_[state].fewest;
  }

  // A state on its way; of one from which no end is found, as far as it goes.
  Way way(int64_t state) {
    fewest(state);
    return ways_[state];
  }

  // The most of these behind any token.
  int64_t ahead(int64_t state) {
    if (const auto known = ahead_.find(state); known != ahead_.end()) return known->second;
    if (asked_ != state) asked_ = state, token_ = 0, most_ = 0, seen_.clear();
    const int64_t mask = session_.mask_of(state);
    for (; token_ < engine_.grammar.vocabulary && most_ < kFarEnd; ++token_) {
      if (!has_bit(mask, token_)) continue;
      const int64_t after = session_.after(state, engine_.grammar.text_of(token_));
      if (after >= 0 && seen_.insert(after).second)
        most_ = std::max<int64_t>(most_, fewest(after));
      engine_.work.spend(1);
      if (engine_.work.is_due()) engine_.work.pause();
    }
    asked_ = -1;
    return ahead_[state] = most_;
  }

 private:
  static constexpr size_t kLongest = 1 << 14;  // bytes of a way
  static constexpr size_t kMostTried = 1 << 9;  // states, where no byte leads nearer

  bool has_bit(int64_t mask, int64_t token) const {
    return engine_.memos->masks.store.words(mask)[token >> 5] >> (token & 31) & 1;
  }

  bool is_known(int32_t state) {
    if (state >= static_cast<int64_t>(ways_.size())) ways_.resize(session_.states.size());
    return ways_[state].fewest != Way::kUnknown;
  }

  // Counts the tokens of a way whose other states are known.
  void measure(int32_t state) {
    Way &way = ways_[state];
    const Way &behind = ways_[way.next];
    way.length = behind.length + 1;
    const bool is_far = way.fewest == kFarEnd || behind.fewest == kFarEnd ||
                        way.length > static_cast<int32_t>(kLongest);
    way.fewest = is_far ? kFarEnd : spelling_.fewest(ways_, state);
  }

  int64_t bytes_of(std::span<const Configuration> configurations) {
    return bytes_.of(configurations, engine_.memos->parser);
  }

  // Chooses the next byte of the way; false where there is none.
  bool find_next(int32_t state) {
    Recogniser &recogniser = engine_.memos->recogniser;
    const int64_t here = bytes_of(session_.states[state]);
    int64_t least = here;
    int32_t best = -1;
    for (const uint8_t byte : choices_) {
      session_.load(state);
      recogniser.read({&byte, 1}, Grammar::kUnlimited);
      if (recogniser.configurations.empty()) continue;
      const int64_t found = bytes_of(recogniser.configurations);
      if (found < least) least = found, best = byte;
    }
    return goes_on(state, best >= 0 ? best : first_byte_nearer(state, here));
  }

  // The first of the fewest bytes behind which fewer are needed than `here`; -1.
  int32_t first_byte_nearer(int32_t state, int64_t here) {
    struct Reached {
      int64_t state;
      int32_t byte;
    };
    std::vector<Reached> queue{{state, -1}};
    std::unordered_set<int64_t> seen{state};
    for (size_t i = 0; i < queue.size() && queue.size() < kMostTried; ++i)
      for (const uint8_t byte : choices_) {
        const int64_t after = session_.after(queue[i].state, {&byte, 1});
        if (after < 0 || !seen.insert(after).second) continue;
        const int32_t first = i == 0 ? byte : queue[i].byte;
        if (bytes_of(session_.states[after]) < here) return first;
        queue.push_back({after, first});
      }
    return -1;
  }

  bool goes_on(int32_t state, int32_t byte) {
    if (byte < 0) return false;
    const auto one = static_cast<uint8_t>(byte);
    const int64_t after = session_.after(state, {&one, 1});
    is_known(static_cast<int32_t>(after));  // makes room
    ways_[state].next = static_cast<int32_t>(after);
    ways_[state].byte = byte;
    return true;
  }

  // One byte of each class, a token of its own if there is such: a blank, or a letter.
  void choose_bytes() {
    std::vector<int32_t> chosen(engine_.grammar.classes, -1);
    const auto offer = [&](int32_t byte, bool is_token) {
      const int64_t kind = engine_.grammar.columns.byte_class[byte];
      if (0 <= kind && kind < engine_.grammar.classes && chosen[kind] < 0 &&
          (!is_token || spelling_.is_token(static_cast<uint8_t>(byte))))
        chosen[kind] = byte;
    };
    for (const bool is_token : {true, false}) {
      offer(' ', is_token);
      for (int32_t i = 0; i < 256; ++i) offer((i + 'a') & 0xFF, is_token);
    }
    for (const int32_t byte : chosen)
      if (byte >= 0) choices_.push_back(static_cast<uint8_t>(byte));
  }

  Session &session_;
  Engine &engine_;
  const Spelling spelling_;
  FewestBytes bytes_;
  std::vector<uint8_t> choices_;
  std::vector<Way> ways_;  // by state
  std::unordered_map<int64_t, int64_t> ahead_;
  // Of the state of which the most ahead is asked: tokens up to which one are looked at.
  int64_t asked_ = -1, token_ = 0, most_ = 0;
  std::unordered_set<int64_t> seen_;
};

}  // namespace cdec::grammars
