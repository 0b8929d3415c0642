// Ways of bytes through states, and the fewest tokens that spell what is left of them.
#pragma once

#include <algorithm>
#include <array>

#include "cdec_native.h"

namespace cdec {

constexpr int32_t kFarEnd = INT32_MAX / 2;  // tokens, where no end is known to be in reach

// A state on a way to the end of a text.
struct Way {
  static constexpr int32_t kUnknown = -1;

  int32_t next = -1;          // the state behind the next byte
  int32_t fewest = kUnknown;  // tokens that spell the rest
  int32_t length = 0;         // bytes of it
  int32_t byte = 0;           // that byte; -1 where a token goes there, which is counted alone
};

class Spelling {
 public:
  explicit Spelling(const cdec_token_trie &tokens) : tokens_(tokens) {
    roots_.fill(-1);
    for (int32_t node = 0; node < tokens.depth.size; node = tokens.skip[node])
      roots_[tokens.node_byte[node]] = node;
  }

  // The fewest tokens from a state, if those from all behind it are known: a token of the trie is of
  // use where it spells a part of the way.
  template <class Ways>
  int32_t fewest(const Ways &ways, int32_t state) const {
    int32_t best = kFarEnd, first = 0, last = static_cast<int32_t>(tokens_.depth.size);
    for (bool is_first = true; first < last && ways[state].next >= 0; is_first = false) {
      const int32_t byte = ways[state].byte;
      if (byte < 0) break;
      const int32_t node = is_first ? roots_[byte] : child(first, last, byte);
      if (node < 0) break;
      state = ways[state].next;
      if (has_token(node)) best = std::min(best, ways[state].fewest + 1);
      first = node + 1;
      last = tokens_.skip[node];
    }
    return std::min(best, kFarEnd);
  }

  // Whether a byte is a token.
  bool is_token(uint8_t byte) const { return roots_[byte] >= 0 && has_token(roots_[byte]); }
  bool has_token(int32_t node) const {
    return tokens_.token_offsets[node] < tokens_.token_offsets[node + 1];
  }
  // The node behind a node, -1 for the root, and a byte; -1 where no token goes on.
  int32_t child_of(int32_t node, int32_t byte) const {
    return node < 0 ? roots_[byte] : child(node + 1, tokens_.skip[node], byte);
  }

 private:
  int32_t child(int32_t first, int32_t last, int32_t byte) const {
    while (first < last && tokens_.node_byte[first] != byte) first = tokens_.skip[first];
    return first < last ? first : -1;
  }

  const cdec_token_trie tokens_;
  std::array<int32_t, 256> roots_;  // nodes of the tokens' first bytes
};

}  // namespace cdec
