// Spellings of numbers, read symbol by symbol: digits are compared with the bounds of a set as they come.
#include <cstring>

#include "cdec_native.h"
#include "construction.h"
#include "guarded.h"

namespace {

// Symbols: other bytes, plus, minus, point, ten digits, the letter of exponents.
constexpr int kMinus = 2, kPoint = 3, kDigit = 4, kLetter = 14, kSymbols = 15;

enum class Phase : int32_t { kStart, kMinus, kNaught, kWhole, kPoint, kFraction, kLetter };
// What stands before the letter of an exponent: one digit, not 0, before the point; other digits;
// zeros alone.
enum class Mantissa : int32_t { kNormalised, kOtherwise, kNothing };

// What is known of a number so far, but for how it compares with the bounds.
struct Head {
  Phase phase;
  int32_t side;         // 1 after a minus
  int32_t has_zeros;    // only zeros were read
  int32_t count;        // digits on this side of the point
  int32_t digits;       // class of all digits, where multiples are told apart
  int32_t is_off;       // a digit, not 0, stands where no multiple has one
  int32_t is_normal;    // one digit, not 0, stands before the point, and an exponent may follow
  int32_t depth;        // digits behind the point up to the last that is not 0,
  int32_t last;         // and the class of all digits up to that one; where `is_normal`
  Mantissa before;      // the letter
};
constexpr size_t kHead = sizeof(Head) / sizeof(int32_t);
static_assert(sizeof(Head) == 10 * sizeof(int32_t));

// A state: the head; for every bound of the side, -1: the number is smaller, 0: it has the same digits
// as yet, 1: it is larger; and, where `is_normal`, the same of its digits from the first one on.
struct NumberPrefix {
  Head head{};
  std::vector<int32_t> order, normal;

  explicit NumberPrefix(size_t bounds) : order(bounds), normal(bounds) {}
  void unpack(cdec::List state) {
    std::memcpy(&head, state.data(), sizeof head);
    std::copy_n(state.begin() + kHead, order.size(), order.begin());
    std::copy_n(state.begin() + kHead + order.size(), normal.size(), normal.begin());
  }
  void pack(std::vector<int32_t> &state) const {
    state.resize(kHead);
    std::memcpy(state.data(), &head, sizeof head);
    state.insert(state.end(), order.begin(), order.end());
    state.insert(state.end(), normal.begin(), normal.end());
  }
  // Forgets what is known of a number with an exponent: none can follow.
  void end_normal() {
    head.is_normal = head.depth = head.last = 0;
    std::ranges::fill(normal, 0);
  }
};

int32_t compared(int64_t value, int64_t other) { return (value > other) - (value < other); }

class Spelling : public cdec::Subsets {
 public:
  Spelling(const cdec_bounds &bounds, const cdec_answers &answers, const cdec_sizes &sizes)
      : Subsets(kSymbols), bounds_(bounds), answers_(answers), sizes_(sizes),
        start_(std::max(bounds.sides[1], bounds.sides[2] - bounds.sides[1])), now_(start_) {
    start_.pack(packed_);
    lists.intern(packed_);
  }

  Phase phase(int64_t state) { return prefix_of(state).head.phase; }

  // Whether a number may end here, without an exponent.
  bool is_end(int64_t state) {
    NumberPrefix &number = prefix_of(state);
    const Phase phase = number.head.phase;
    if (phase != Phase::kNaught && phase != Phase::kWhole)
      return phase == Phase::kFraction && is_in(number, 1);
    close(number);
    return is_in(number, 0);
  }

  // Which exponents from -far to far may follow the letter that a state ends with.
  void exponents(int64_t state, uint8_t *found) {
    const NumberPrefix &number = prefix_of(state);
    const Head &head = number.head;
    std::vector<int32_t> order(number.order);
    int32_t digits = head.last;
    for (int64_t exponent = -sizes_.far; exponent <= sizes_.far; ++exponent, ++found) {
      if (head.before != Mantissa::kNormalised) {
        const bool is_near = -sizes_.down <= exponent && exponent <= sizes_.up;
        *found = head.before == Mantissa::kNothing ? answers_.zero[1] : is_near;
        continue;
      }
      for (int64_t b = 0; b < count(head); ++b) {
        const int64_t other = bounds_.exponent[first(head) + b];
        order[b] = exponent == other ? number.order[b] : ::compared(exponent, other);
      }
      const int32_t pattern = pattern_of(1, head, order);
      const int64_t behind = head.depth - sizes_.places;
      if (exponent > behind) digits = answers_.following[digits][0];
      const bool is_off = !answers_.gridded[pattern] || exponent < behind;
      *found = is_off ? answers_.off[pattern] : answers_.on[2 * pattern + head.side][digits];
    }
  }

 private:
  void follow(cdec::List state) override {
    for (int symbol = kMinus; symbol < kSymbols; ++symbol) {
      now_.unpack(state);
      if (!read(now_, symbol)) continue;
      now_.pack(packed_);
      lead(symbol, packed_);
    }
  }

  // Reads a symbol; says whether a number may go on so.
  bool read(NumberPrefix &number, int symbol) const {
    Head &head = number.head;
    const Phase phase = head.phase;
    const bool is_whole = phase == Phase::kNaught || phase == Phase::kWhole;
    if (symbol == kMinus && phase == Phase::kStart)
      head.phase = Phase::kMinus, head.side = 1;
    else if (symbol == kPoint && is_whole)
      close(number);
    else if (symbol == kLetter && (is_whole || phase == Phase::kFraction))
      return raise(number);
    else
      return kDigit <= symbol && symbol < kLetter && read_digit(number, symbol - kDigit);
    return true;
  }

  bool read_digit(NumberPrefix &number, int digit) const {
    switch (number.head.phase) {
      case Phase::kStart:
      case Phase::kMinus:
        begin(number, digit);
        return true;
      case Phase::kWhole:
        grow(number, digit);
        return true;
      case Phase::kPoint:
      case Phase::kFraction:
        deepen(number, digit);
        return true;
      default:
        return false;
    }
  }

  // Reads the first digit.
  void begin(NumberPrefix &number, int digit) const {
    Head &head = number.head;
    head.phase = digit ? Phase::kWhole : Phase::kNaught;
    head.has_zeros = digit == 0;
    head.count = 1;
    head.digits = answers_.following[0][digit];
    head.is_normal = digit > 0 && sizes_.has_powers;
    head.last = head.is_normal ? head.digits : 0;
    for (int64_t b = 0; b < count(head); ++b) {
      const int64_t bound = first(head) + b;
      number.order[b] =
          bounds_.whole[bound][1] > sizes_.most ? -1 : compared(digit, bounds_.whole[bound], 0);
      if (head.is_normal) number.normal[b] = compared(digit, bounds_.scientific[bound], 0);
    }
  }

  // Reads a further digit before the point.
  void grow(NumberPrefix &number, int digit) const {
    Head &head = number.head;
    head.count = static_cast<int32_t>(std::min<int64_t>(head.count + 1, sizes_.longest + 1));
    head.digits = answers_.following[head.digits][digit];
    for (int64_t b = 0; b < count(head); ++b) {
      const int64_t *whole = bounds_.whole[first(head) + b];
      if (head.count > whole[1])
        number.order[b] = 1;
      else if (number.order[b] == 0)
        number.order[b] = compared(digit, whole, head.count - 1);
    }
    number.end_normal();
  }

  // Reads a digit behind the point.
  void deepen(NumberPrefix &number, int digit) const {
    Head &head = number.head;
    const int32_t at = head.count;
    bool is_told = true;
    for (int64_t b = 0; b < count(head); ++b) {
      const int64_t bound = first(head) + b;
      int32_t &order = number.order[b], &normal = number.normal[b];
      if (order == 0) order = compared(digit, bounds_.fraction[bound], at);
      if (head.is_normal && normal == 0) normal = compared(digit, bounds_.scientific[bound], at + 1);
      is_told = is_told && order != 0 && (!head.is_normal || normal != 0);
    }
    if (at < sizes_.places)
      head.digits = answers_.following[head.digits][digit];
    else if (sizes_.has_grid && digit)
      head.is_off = 1, head.digits = 0;
    if (head.is_normal && sizes_.has_grid) deepen_normal(number, digit);
    const bool stays_told = is_told && at + 1 >= sizes_.places && !(head.is_normal && sizes_.has_grid);
    const int64_t most = head.is_normal ? sizes_.deep : sizes_.deepest;
    head.count = static_cast<int32_t>(stays_told ? sizes_.deep : std::min<int64_t>(at + 1, most));
    head.phase = Phase::kFraction;
    head.has_zeros = head.has_zeros && digit == 0;
  }

  void deepen_normal(NumberPrefix &number, int digit) const {
    Head &head = number.head;
    const int32_t at = head.count;
    if (at >= sizes_.mantissa || (digit && at >= sizes_.depth)) return number.end_normal();
    if (!digit) return;
    for (int32_t i = head.depth; i < at; ++i) head.last = answers_.following[head.last][0];
    head.last = answers_.following[head.last][digit];
    head.depth = at + 1;
  }

  // Reads the point, or the end of a number without one: fewer digits are a smaller number.
  void close(NumberPrefix &number) const {
    Head &head = number.head;
    for (int64_t b = 0; b < count(head); ++b)
      if (head.count < bounds_.whole[first(head) + b][1]) number.order[b] = -1;
    head.phase = Phase::kPoint;
    head.count = 0;
  }

  // Reads the letter of an exponent, keeps what matters of the digits; says whether it may stand.
  bool raise(NumberPrefix &number) const {
    const Head old = number.head;
    const int64_t digits = old.phase == Phase::kWhole ? 1 : old.count + 1;
    const std::vector<int32_t> normal = number.normal;
    number = start_;
    Head &head = number.head;
    head.phase = Phase::kLetter;
    head.before = old.has_zeros ? Mantissa::kNothing : Mantissa::kOtherwise;
    if (old.is_normal) {
      head.side = old.side, head.before = Mantissa::kNormalised;
      head.depth = old.depth, head.last = old.last;
      for (int64_t b = 0; b < count(head); ++b) {
        const bool is_less = normal[b] == 0 && digits < bounds_.scientific[first(head) + b][1];
        number.order[b] = is_less ? -1 : normal[b];
      }
    }
    return sizes_.has_powers && (old.is_normal || old.has_zeros || sizes_.is_any);
  }

  // Whether a number without exponent is in, with its last digit read.
  bool is_in(NumberPrefix &number, int which) const {
    const Head &head = number.head;
    if (head.has_zeros) return answers_.zero[which];
    for (int64_t b = 0; b < count(head); ++b)
      if (number.order[b] == 0 && head.count < bounds_.fraction[first(head) + b][1])
        number.order[b] = -1;
    const int32_t pattern = pattern_of(which, head, number.order);
    if (!answers_.gridded[pattern] || head.is_off) return answers_.off[pattern];
    int32_t digits = head.digits;
    for (int64_t i = head.count; i < sizes_.places; ++i) digits = answers_.following[digits][0];
    return answers_.on[2 * pattern + head.side][digits];
  }

  // The pattern of numbers that compare so with the bounds of a side.
  int32_t pattern_of(int which, const Head &head, const std::vector<int32_t> &order) const {
    int64_t above = 0;
    while (above < count(head) && order[above] > 0) ++above;
    const bool is_at_bound = above < count(head) && order[above] == 0;
    return answers_.pieces[2 * which + head.side][2 * above + is_at_bound];
  }

  // Compares a digit with that of a bound, (first, number), at a place; behind its last stand zeros.
  int32_t compared(int digit, const int64_t *digits, int64_t at) const {
    return ::compared(digit, at < digits[1] ? bounds_.digits[digits[0] + at] : 0);
  }

  int64_t first(const Head &head) const { return bounds_.sides[head.side]; }
  int64_t count(const Head &head) const { return bounds_.sides[head.side + 1] - first(head); }

  NumberPrefix &prefix_of(int64_t state) {
    now_.unpack(lists[state]);
    return now_;
  }

  const cdec_bounds &bounds_;
  const cdec_answers &answers_;
  const cdec_sizes &sizes_;
  const NumberPrefix start_;
  NumberPrefix now_;
  std::vector<int32_t> packed_;
};

}  // namespace

extern "C" {

cdec_construction *cdec_spell_numbers(const cdec_bounds *bounds, const cdec_answers *answers,
                                      const cdec_sizes *sizes) {
  return cdec::made<Spelling>(*bounds, *answers, *sizes);
}

int64_t cdec_spelling_ends(cdec_construction *spelling, cdec_u8_out out) {
  return cdec::guarded([&]() -> int64_t {
    auto *numbers = dynamic_cast<Spelling *>(spelling);
    for (int64_t state = 0; numbers && state < std::min(out.size, numbers->lists.size()); ++state)
      out[state] = numbers->phase(state) == Phase::kLetter ? CDEC_AT_LETTER
                   : numbers->is_end(state)                ? CDEC_AT_END
                                                           : CDEC_UNFINISHED;
    return 0;
  });
}

int64_t cdec_spelling_exponents(cdec_construction *spelling, cdec_i64 letters,
                                cdec_bool_rows_out found) {
  return cdec::guarded([&]() -> int64_t {
    auto *numbers = dynamic_cast<Spelling *>(spelling);
    for (int64_t i = 0; numbers && i < letters.size; ++i)
      if (numbers->lists.holds(letters[i])) numbers->exponents(letters[i], found[i]);
    return 0;
  });
}

}  // extern "C"
