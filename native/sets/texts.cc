// Texts and rows of tokens: hashes, offsets, checks of encodings, copies of picked pieces.
#include <algorithm>
#include <span>
#include <vector>

#include "guarded.h"

namespace {

using Bytes = std::span<const uint8_t>;

bool begins_with(Bytes text, Bytes head) {
  return head.size() <= text.size() && std::equal(head.begin(), head.end(), text.begin());
}

Bytes piece(cdec_u8 data, int64_t first, int64_t stop) {
  first = std::max<int64_t>(first, 0);
  stop = std::min(stop, data.size);
  return first < stop ? Bytes(data.at + first, stop - first) : Bytes();
}

// The bytes of an ordinary token; nothing of any other.
Bytes spelling(cdec_u8 flat, cdec_i64 byte_offsets, int64_t token) {
  if (token < 0 || token + 1 >= byte_offsets.size) return {};
  return piece(flat, byte_offsets[token], byte_offsets[token + 1]);
}

uint64_t hash(Bytes text) {
  uint64_t value = 0xCBF29CE484222325;
  for (uint8_t byte : text) value = (value ^ byte) * 0x100000001B3;
  value = (value ^ (value >> 33)) * 0xFF51AFD7ED558CCD;
  value = (value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53;
  return value ^ (value >> 33);
}

template <class Values, class Result>
int64_t gather(Values values, cdec_i64 offsets, cdec_i64 picked, Result result) {
  int64_t at = 0;
  for (int64_t i = 0; i < picked.size; ++i) {
    const int64_t first = offsets[picked[i]], size = offsets[picked[i] + 1] - first;
    std::copy_n(values.at + first, size, result.at + at);
    at += size;
  }
  return 0;
}

}  // namespace

extern "C" {

int64_t cdec_hash_texts(cdec_u8 data, cdec_i64 offsets, cdec_u64_out hashes) {
  for (int64_t i = 0; i < hashes.size; ++i)
    hashes[i] = hash(piece(data, offsets[i], offsets[i + 1]));
  return 0;
}

int64_t cdec_row_spells(cdec_i32 tokens, int64_t start, int64_t stop, cdec_u8 flat,
                        cdec_i64 byte_offsets, cdec_u8 text) {
  if (start < 0 || stop > tokens.size) return 0;
  Bytes rest(text.at, text.size);
  for (int64_t i = start; i < stop; ++i) {
    const int64_t token = tokens[i];
    if (token < 0 || token + 1 >= byte_offsets.size) return 0;
    const Bytes own = spelling(flat, byte_offsets, token);
    if (!begins_with(rest, own)) return 0;
    rest = rest.subspan(own.size());
  }
  return rest.empty();
}

int64_t cdec_text_offsets(cdec_u8 data, cdec_i64 characters, cdec_i64_out offsets) {
  int64_t at = 0;
  offsets[0] = 0;
  for (int64_t i = 0; i < characters.size; ++i) {
    for (int64_t left = characters[i]; left > 0 && at < data.size; --left) {
      const uint8_t first = data[at];
      at += first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    }
    offsets[i + 1] = at;
  }
  return 0;
}

int64_t cdec_find_blank(cdec_u8 data, cdec_i64 offsets, cdec_bool_out blank) {
  int64_t found = 0;
  for (int64_t i = 0; i < blank.size; ++i) {
    const Bytes text = piece(data, offsets[i], offsets[i + 1]);
    blank[i] = std::all_of(text.begin(), text.end(),
                           [](uint8_t byte) { return byte == 32 || (byte >= 9 && byte <= 13); });
    found += blank[i];
  }
  return found;
}

int64_t cdec_check_rows(cdec_i32 tokens, cdec_i64 row_offsets, cdec_u8 data, cdec_i64 offsets,
                        cdec_u8 head, cdec_u8 empty_head, cdec_u8 tail, cdec_u8 flat,
                        cdec_i64 byte_offsets, cdec_i8_out verdicts) {
  return cdec::guarded([&]() -> int64_t {
    int64_t bad = 0;
    std::vector<uint8_t> expected;
    for (int64_t i = 0; i < verdicts.size; ++i) {
      const Bytes text = piece(data, offsets[i], offsets[i + 1]);
      const cdec_u8 before = text.empty() ? empty_head : head;
      expected.assign(before.at, before.at + before.size);
      expected.insert(expected.end(), text.begin(), text.end());
      expected.insert(expected.end(), tail.at, tail.at + tail.size);
      Bytes rest(expected.data(), expected.size());
      int8_t verdict = CDEC_FINE;
      for (int64_t k = row_offsets[i]; k < row_offsets[i + 1] && verdict == CDEC_FINE; ++k) {
        const Bytes own = spelling(flat, byte_offsets, tokens[k]);
        if (own.empty())
          verdict = CDEC_NOT_ORDINARY;
        else if (!begins_with(rest, own))
          verdict = CDEC_NOT_THE_TEXT;
        else
          rest = rest.subspan(own.size());
      }
      if (verdict == CDEC_FINE && !rest.empty()) verdict = CDEC_NOT_THE_TEXT;
      verdicts[i] = verdict;
      bad += verdict != CDEC_FINE;
    }
    return bad;
  });
}

int64_t cdec_spelled_offsets(cdec_i32 tokens, cdec_i64 row_offsets, cdec_i64 byte_offsets,
                             cdec_i8_out verdicts, cdec_i64_out offsets) {
  offsets[0] = 0;
  for (int64_t i = 0; i < verdicts.size; ++i) {
    int64_t size = 0;
    verdicts[i] = CDEC_FINE;
    for (int64_t k = row_offsets[i]; k < row_offsets[i + 1]; ++k) {
      const int64_t token = tokens[k];
      const bool is_id = token >= 0 && token + 1 < byte_offsets.size;
      const int64_t length = is_id ? byte_offsets[token + 1] - byte_offsets[token] : 0;
      if (length == 0) {
        verdicts[i] = CDEC_NOT_ORDINARY;
        break;
      }
      size += length;
    }
    offsets[i + 1] = offsets[i] + (verdicts[i] == CDEC_FINE ? size : 0);
  }
  return offsets[verdicts.size];
}

int64_t cdec_spell_rows(cdec_i32 tokens, cdec_i64 row_offsets, cdec_u8 flat, cdec_i64 byte_offsets,
                        cdec_i64 offsets, cdec_u8_out data) {
  for (int64_t i = 0; i + 1 < offsets.size; ++i) {
    int64_t at = offsets[i];
    for (int64_t k = row_offsets[i]; k < row_offsets[i + 1] && at < offsets[i + 1]; ++k) {
      const Bytes own = spelling(flat, byte_offsets, tokens[k]);
      std::copy(own.begin(), own.end(), data.at + at);
      at += static_cast<int64_t>(own.size());
    }
  }
  return 0;
}

int64_t cdec_mark_distinct(cdec_i32 tokens, cdec_i64 offsets, cdec_i64 order, cdec_bool_out first) {
  int64_t found = 0;
  for (int64_t i = 0; i < order.size; ++i) {
    const auto row = [&](int64_t place) {
      const int64_t begin = offsets[order[place]];
      return std::span(tokens.at + begin, offsets[order[place] + 1] - begin);
    };
    first[i] = i == 0 || !std::ranges::equal(row(i - 1), row(i));
    found += first[i];
  }
  return found;
}

int64_t cdec_gather_offsets(cdec_i64 offsets, cdec_i64 picked, cdec_i64_out result) {
  result[0] = 0;
  for (int64_t i = 0; i < picked.size; ++i)
    result[i + 1] = result[i] + offsets[picked[i] + 1] - offsets[picked[i]];
  return 0;
}

int64_t cdec_gather_bytes(cdec_u8 values, cdec_i64 offsets, cdec_i64 picked, cdec_u8_out result) {
  return gather(values, offsets, picked, result);
}

int64_t cdec_gather_i32(cdec_i32 values, cdec_i64 offsets, cdec_i64 picked, cdec_i32_out result) {
  return gather(values, offsets, picked, result);
}

int64_t cdec_gather_i64(cdec_i64 values, cdec_i64 offsets, cdec_i64 picked, cdec_i64_out result) {
  return gather(values, offsets, picked, result);
}

}  // extern "C"
