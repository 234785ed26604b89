// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_ADAPTIVE_TOP_K_HPP
#define CAUSEWAY_STAGE_ADAPTIVE_TOP_K_HPP

// Sends the values of largest magnitude, of each boundary as many as its link carries in the time that the slowest link
// takes (AdaTopK of FusionLLM: Tang et al., 2024; the arithmetic is derived here from that aim). The slowest link is
// compressed by a given ratio, links that are twice as quick send twice as many bytes, and quick ones send everything. The
// sender decides; a message says how much of the tensor it has, so the receiver need not know the speeds.

#include <causeway/compress/codec.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/compress/sparse.hpp>
#include <causeway/compress/top_k.hpp>
#include <causeway/compress/transform.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/stage/activation.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

/// Bytes per second of each boundary's link, by edge; finite and positive. No backward ones: as forward. Edges beyond the
/// end: as the slowest.
struct edge_speeds {
  std::vector<double> forward{};
  std::vector<double> backward{};

  void serialize(auto& ar) { ar(forward, backward); }
  friend bool operator==(const edge_speeds&, const edge_speeds&) = default;
};

/// errc::invalid_argument where a speed cannot be one.
CAUSEWAY_DECL result<void> validate(const edge_speeds& speeds);

struct adaptive_top_k_options {
  double ratio = 100;    ///< how many times fewer bytes than f32 the slowest link sends; 1 or more
  edge_speeds speeds{};  ///< none: every link by the ratio
};

namespace detail {
struct adaptive_top_k_opening {
  static constexpr std::string_view name = "adaptive_top_k<";
};
}  // namespace detail

/// The k largest of every 4096 values, ties to the lower place, as Quantiser encodes them, and their places in the fewest
/// bits (compress::top_k); what is left out arrives as zero. k is the largest number for which the message takes no more
/// than 4 · rows · width / ratio · speed / slowest bytes, and at least 1; links that may send that much send all values.
/// Gradients likewise, by their own magnitudes. Nothing is fed back: what was left out is lost, as in the paper.
///
/// Values that are not finite count as the largest and fail at the receiver.
template <compress::Codec Quantiser = compress::none>
class adaptive_top_k {
 public:
  static constexpr std::string_view name =
      detail::joined<detail::adaptive_top_k_opening, Quantiser, detail::closing>::value;
  static constexpr activation_traits traits{};
  static constexpr std::uint32_t state_version = 1;
  static constexpr std::uint32_t chunk = 4096;

  explicit adaptive_top_k(adaptive_top_k_options options = {}, Quantiser quantiser = Quantiser{})
      : ratio_{options.ratio}, quantiser_{std::move(quantiser)}, speeds_{std::move(options.speeds)}, next_{speeds_} {
    CAUSEWAY_EXPECT(ratio_ >= 1 && validate(speeds_));
  }

  /// Takes other speeds with the next step that begins. Peers need not agree, though messages are equally long in time only
  /// as far as they do.
  void measured(edge_speeds speeds) {
    CAUSEWAY_EXPECT(validate(speeds));
    next_ = std::move(speeds);
  }

  /// How many of 4096 values this peer sends now; 0: all of them.
  [[nodiscard]] std::uint32_t kept(const crossing& c) const {
    const double budget = budget_of(c);
    if (fits(head_bytes + quantiser_.encoded_size(c.count()), budget)) return 0;
    std::uint32_t low = 1, high = chunk;  // bytes never fall with k
    while (low < high) {
      const std::uint32_t middle = (low + high + 1) / 2;
      if (fits(sparse_bytes(c, middle), budget)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  [[nodiscard]] std::size_t most_bytes(const crossing& c) const {
    return std::max(head_bytes + quantiser_.encoded_size(c.count()), sparse_bytes(c, 1));
  }

  result<std::size_t> encode(thread_pool& pool, const crossing& c, std::span<const float> values,
                             std::span<std::byte> room) {
    CAUSEWAY_EXPECT(values.size() == c.count() && room.size() >= most_bytes(c));
    const std::uint32_t k = kept(c);
    std::memcpy(room.data(), &k, head_bytes);
    room = room.subspan(head_bytes);
    if (k == 0) return head_bytes + quantiser_.encode(pool, values, room);
    return head_bytes + codec(k).encode({.pool = pool, .seed = c.seed}, values, room);
  }

  result<void> decode(thread_pool& pool, const crossing& c, std::span<const std::byte> bytes, std::span<float> values) {
    CAUSEWAY_EXPECT(values.size() == c.count());
    std::uint32_t k = 0;
    if (bytes.size() < head_bytes) return compress::detail::wrong_length(name, bytes.size(), head_bytes);
    std::memcpy(&k, bytes.data(), head_bytes);
    bytes = bytes.subspan(head_bytes);
    if (k == 0) return quantiser_.decode(pool, bytes, values);
    if (k > chunk)
      return fail(errc::corrupt, std::string{name}, std::to_string(k) + " of 4096 values: no encoder keeps so many");
    std::fill(values.begin(), values.end(), 0.0F);
    return codec(k).decode_add({.pool = pool, .seed = c.seed}, bytes, values, 1.0F, {});
  }

  void begin_step() { speeds_ = next_; }
  result<void> commit_step() { return {}; }

  [[nodiscard]] std::uint64_t agreement() const { return hash_text(name); }
  void serialize(auto& ar) { ar(speeds_, next_); }

 private:
  using message = compress::sparse<compress::no_transform, compress::top_k, Quantiser>;
  static constexpr std::size_t head_bytes = 4;

  [[nodiscard]] message codec(std::uint32_t k) const {
    return message{{}, compress::top_k{{.k = k, .chunks = {.run = chunk}}}, quantiser_};
  }
  [[nodiscard]] std::size_t sparse_bytes(const crossing& c, std::uint32_t k) const {
    thread_pool none;  // sizes take no work
    return head_bytes + codec(k).most_bytes({.pool = none}, c.count());
  }
  static bool fits(std::size_t bytes, double budget) { return static_cast<double>(bytes) <= budget; }

  [[nodiscard]] double budget_of(const crossing& c) const {
    const bool back = c.way == direction::backward && !speeds_.backward.empty();
    const std::vector<double>& own = back ? speeds_.backward : speeds_.forward;
    double slowest = std::numeric_limits<double>::infinity();
    for (const auto* const way : {&speeds_.forward, &speeds_.backward}) {
      for (const double speed : *way) slowest = std::min(slowest, speed);
    }
    const double quicker = c.edge < own.size() ? own[c.edge] / slowest : 1.0;
    return 4.0 * static_cast<double>(c.count()) / ratio_ * quicker;
  }

  double ratio_;
  Quantiser quantiser_;
  edge_speeds speeds_, next_;
};
static_assert(ActivationCodec<adaptive_top_k<>>);

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/adaptive_top_k.ipp>
#endif

#endif  // CAUSEWAY_STAGE_ADAPTIVE_TOP_K_HPP
