// How the tokens of a vocabulary read within JSON, whatever the schema.
#include <algorithm>

#include "bits.h"
#include "contents.h"

using cdec::schemas::escaped;
using cdec::schemas::hexadecimal;

namespace {

// A text within a string: how far a character or an escape is spelled.
class Content {
 public:
  explicit Content(bool few_escapes) : few_escapes_(few_escapes) {}

  // Takes a byte; false where it is no content. A quote is only taken within an escape.
  bool take(int32_t byte) {
    if (more_ > 0) {
      const bool is_next = low_ <= byte && byte <= high_;
      --more_;
      low_ = 0x80;
      high_ = 0xBF;
      return is_next;
    }
    if (escape_ > 0) return take_escape(byte);
    if (byte == '\\') {
      escape_ = 1;
      return true;
    }
    if (byte < 0x20 || (0x80 <= byte && byte < 0xC2) || byte > 0xF4) return false;
    ++characters_;
    more_ = (byte >= 0xC2) + (byte >= 0xE0) + (byte >= 0xF0);
    low_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
    high_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
    return true;
  }

  bool is_between() const { return more_ == 0 && escape_ == 0; }
  int32_t characters() const { return characters_; }  // that began as they are

 private:
  bool goes_to(int32_t escape) {
    escape_ = escape;
    return true;
  }

  bool take_escape(int32_t byte) {
    if (escape_ == 1) {
      unit_ = 0;
      if (byte == 'u') return goes_to(2);
      return escaped(byte) >= 0 && !(byte == '/' && few_escapes_) && goes_to(0);
    }
    if (escape_ == 6 || escape_ == 7)
      return byte == (escape_ == 6 ? '\\' : 'u') && goes_to(escape_ + 1);
    const int32_t digit = hexadecimal(byte);
    return digit >= 0 && take_digit(digit);
  }

  bool take_digit(int32_t digit) {
    const bool is_second = escape_ >= 8;
    const int32_t read = escape_ - (is_second ? 7 : 1), left = 4 * (4 - read);
    unit_ = (is_second && read == 1 ? 0 : unit_) << 4 | digit;
    const bool is_low = 0xDC00 <= unit_ << left && unit_ << left <= 0xDFFF;
    if (is_second && read == 1 && digit != 0xD) return false;
    if (read >= 2 && is_low != is_second) return false;
    // All that the digits can become needs no escape.
    if (few_escapes_ && !is_second && unit_ << left >= 0x20 && (unit_ + 1) << left <= 0x7F)
      return false;
    if (escape_ == 5) return goes_to(0xD800 <= unit_ && unit_ <= 0xDBFF ? 6 : 0);
    return goes_to(escape_ == 11 ? 0 : escape_ + 1);
  }

  const bool few_escapes_;
  int32_t characters_ = 0;
  int32_t more_ = 0, low_ = 0x80, high_ = 0xBF;  // bytes of a character to come, bounds of the next
  // 0 none, 1 a backslash, 2 to 5 before a digit of a unit, 6 behind a high surrogate, 7 and a
  // backslash, 8 to 11 before a digit of the low one.
  int32_t escape_ = 0;
  int32_t unit_ = 0;
};

bool is_blank(int32_t byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }

}  // namespace

extern "C" {

int64_t cdec_json_tokens_classify(cdec_u8 data, cdec_i64 starts, int64_t few,
                                  cdec_i32_out characters, cdec_i32_out cuts, cdec_i32_out ends,
                                  cdec_i32_out blanks) {
  for (int64_t token = 0; token < characters.size; ++token) {
    const uint8_t* text = data.at + starts[token];
    const auto size = static_cast<int32_t>(starts[token + 1] - starts[token]);
    blanks[token] = static_cast<int32_t>(std::find_if_not(text, text + size, is_blank) - text);
    characters[token] = cuts[token] = ends[token] = -1;
    Content content(few != 0);
    int32_t at = 0;
    for (; at < size; ++at) {
      const bool is_quote = text[at] == '"' && content.is_between();
      const bool is_cut = is_quote || (text[at] == '\\' && content.is_between());
      if (is_cut && cuts[token] < 0) cuts[token] = at;
      if (is_quote) ends[token] = at;
      if (is_quote || !content.take(text[at])) break;
    }
    if (at < size || size == 0) continue;
    ends[token] = CDEC_INSIDE;
    if (cuts[token] < 0) characters[token] = content.characters();
  }
  return 0;
}

int64_t cdec_json_tokens_content(cdec_i32 characters, cdec_u32_rows_out rows) {
  const int64_t last = rows.rows - 1;
  for (int64_t token = 0; token < characters.size; ++token)
    if (characters[token] >= 0 && token >> 5 < rows.width)
      cdec::set_bit(rows[std::min<int64_t>(characters[token], last)], token);
  for (int64_t row = 1; row <= last; ++row)
    for (int64_t word = 0; word < rows.width; ++word) rows[row][word] |= rows[row - 1][word];
  return 0;
}

}  // extern "C"
