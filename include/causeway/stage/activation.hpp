// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_ACTIVATION_HPP
#define CAUSEWAY_STAGE_ACTIVATION_HPP

// How the tensor at a boundary between two stages becomes bytes and a tensor again. A stage sends its output, f32
// [rows, width], forward, and gets the gradient with respect to it, of the same shape, back. One codec value lives in each
// peer and sees both directions of every boundary that the peer touches. What a codec remembers changes with committed
// steps only, so that both sides of a boundary remember the same, whatever was tried again between.

#include <causeway/compress/codec.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/kernels/reduce.hpp>
#include <causeway/policy/concepts.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

/// Of what crosses a boundary: nobody sends on, or takes, values that are not.
[[nodiscard]] inline bool all_finite(thread_pool& pool, std::span<const float> values) {
  return values.empty() || kernels::all_finite(pool, values.data(), static_cast<std::int64_t>(values.size()));
}

enum class direction : std::uint8_t {
  forward,   ///< activations, to the next stage
  backward,  ///< their gradient, to the stage before
};

/// One boundary tensor on its way. All but `base` and the meaning of the spans is equal, by value, on both sides.
struct crossing {
  std::uint32_t edge = 0;  ///< the boundary between virtual stages edge and edge + 1
  direction way = direction::forward;
  std::int64_t rows = 0;  ///< sequences × tokens
  std::int64_t width = 0;
  std::int64_t sequences = 1;                ///< rows is a multiple of it
  std::span<const std::uint64_t> samples{};  ///< ids of the sequences; empty where the run does not know them
  std::uint64_t seed = 0;                    ///< of this message: another one for every message of the run
  std::span<const float> base{};             ///< [rows, width] that both sides have; empty: zeros (see subspace)

  [[nodiscard]] std::size_t count() const noexcept { return static_cast<std::size_t>(rows * width); }
};

/// What a codec says about itself.
struct activation_traits {
  bool exact = false;          ///< decode gives the bits that encode was given
  bool stateful = false;       ///< decoding needs what earlier steps sent over the same boundary
  bool needs_samples = false;  ///< encode and decode fail without `samples`
  bool uses_base = false;      ///< reads `base`; others ignore it
};

/// Requirements, for rows · width = n values:
///
/// - `most_bytes(c)`: no encoded message of this crossing is longer; equal on both sides.
/// - `encode(pool, c, values, room)`: sender. Writes the front of `room`, most_bytes(c) at least, and gives how many bytes.
///   Values that are not finite fail here or at the receiver, with errc::non_finite.
/// - `decode(pool, c, bytes, values)`: receiver, of bytes that anybody may have sent: errc::protocol for a wrong length,
///   errc::corrupt for bytes that no encoder makes, errc::diverged when the two sides do not remember the same. After an
///   error `values` are unspecified and nothing is remembered.
/// - Both may stage changes of what is remembered. Within a step the same crossing (by its seed) may come again, and the
///   later call counts: equal values give equal bytes. `begin_step()` forgets what is staged; a step that is tried again
///   as a whole begins anew. `commit_step()` makes it the state; after an error the state is what it was.
/// - `agreement()`: a hash of what name and options must agree in for two peers to understand each other. Where messages
///   tell of other options by their length, those need not be part of it.
/// - One thread calls. Results are the same bits for every size of `pool`.
template <class A>
concept ActivationCodec = Movable<A> && DefaultInitializable<A> && Stateful<A> &&
    requires(A& a, const A& fixed, thread_pool& pool, const crossing& c, std::span<const float> values,
             std::span<std::byte> room, std::span<const std::byte> bytes, std::span<float> decoded) {
  { A::name } -> ConvertibleTo<std::string_view>;
  { A::traits } -> std::same_as<const activation_traits&>;
  { fixed.most_bytes(c) } -> std::same_as<std::size_t>;
  { a.encode(pool, c, values, room) } -> std::same_as<result<std::size_t>>;
  { a.decode(pool, c, bytes, decoded) } -> std::same_as<result<void>>;
  a.begin_step();
  { a.commit_step() } -> std::same_as<result<void>>;
  { fixed.agreement() } -> std::same_as<std::uint64_t>;
};

/// Whether a codec remembers what crossed before. Of one that is chosen at run time its `remembers()` says so.
template <ActivationCodec A>
[[nodiscard]] constexpr bool remembers(const A& codec) {
  if constexpr (requires { codec.remembers(); }) return codec.remembers();
  return A::traits.stateful;
}

/// Whether a codec reads `base`. Of one that is chosen at run time its `needs_base()` says so.
template <ActivationCodec A>
[[nodiscard]] constexpr bool needs_base(const A& codec) {
  if constexpr (requires { codec.needs_base(); }) return codec.needs_base();
  return A::traits.uses_base;
}

/// Of codecs with traits.uses_base: `leave_outside(pool, width, rows)` turns rows of embedding tables into the rows of the
/// tables that `base` is made of, on one peer; the others get them from it.
template <class A>
concept UsesBase = ActivationCodec<A> &&
                   A::traits.uses_base&& requires(A& a, thread_pool& pool, std::int64_t width, std::span<float> rows) {
  { a.leave_outside(pool, width, rows) } -> std::same_as<result<void>>;
};

namespace detail {

/// The names of types one after another, as characters that live as long as the program. (Not of references to the names:
/// nvcc does not compile those.)
template <class... Parts>
struct joined {
  static constexpr auto characters = [] {
    std::array<char, (std::size_t{0} + ... + Parts::name.size())> all{};
    auto* to = all.data();
    ((to = std::copy(Parts::name.begin(), Parts::name.end(), to)), ...);
    return all;
  }();
  static constexpr std::string_view value{characters.data(), characters.size()};
};
struct comma {
  static constexpr std::string_view name = ",";
};
struct closing {
  static constexpr std::string_view name = ">";
};

}  // namespace detail

/// Every crossing through a dense codec, activations through one and gradients through another. Remembers nothing; needs
/// no samples. Bytes: encoded_size(rows · width) of the codec, blocks run over the ends of rows. Values that are not
/// finite, or become so (beyond 65504 with fp16), fail at the receiver, as the codec's decode does.
template <compress::Codec Forward, compress::Codec Backward = Forward>
class coded {
 public:
  static constexpr std::string_view name = Forward::name == Backward::name
                                               ? std::string_view{Forward::name}
                                               : detail::joined<Forward, detail::comma, Backward>::value;
  static constexpr activation_traits traits{.exact = !Forward::traits.lossy && !Backward::traits.lossy};
  static constexpr std::uint32_t state_version = 1;

  explicit coded(Forward forward = Forward{}, Backward backward = Backward{}) : forward_{forward}, backward_{backward} {}

  [[nodiscard]] std::size_t most_bytes(const crossing& c) const {
    return c.way == direction::forward ? forward_.encoded_size(c.count()) : backward_.encoded_size(c.count());
  }

  result<std::size_t> encode(thread_pool& pool, const crossing& c, std::span<const float> values,
                             std::span<std::byte> room) {
    CAUSEWAY_EXPECT(values.size() == c.count() && room.size() >= most_bytes(c));
    return c.way == direction::forward ? forward_.encode(pool, values, room) : backward_.encode(pool, values, room);
  }

  result<void> decode(thread_pool& pool, const crossing& c, std::span<const std::byte> bytes, std::span<float> values) {
    CAUSEWAY_EXPECT(values.size() == c.count());
    return c.way == direction::forward ? forward_.decode(pool, bytes, values) : backward_.decode(pool, bytes, values);
  }

  void begin_step() {}
  result<void> commit_step() { return {}; }

  [[nodiscard]] std::uint64_t agreement() const { return hash_text(name); }
  void serialize(auto&) {}

 private:
  Forward forward_;
  Backward backward_;
};

/// f32 as it is: 4 bytes a value, exact.
using plain = coded<compress::none>;
static_assert(ActivationCodec<plain>);

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_ACTIVATION_HPP
