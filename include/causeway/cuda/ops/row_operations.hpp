// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CUDA_OPS_ROW_OPERATIONS_HPP
#define CAUSEWAY_CUDA_OPS_ROW_OPERATIONS_HPP

// What an engine does beside a model's operations (compute.hpp), over any queue: memory, order and errors; and for the
// rounds of a run codecs, outer updates and arithmetic on flat rows, all with the CPU's bits.

#include <causeway/compress/codec.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/sparsifier.hpp>
#include <causeway/compress/top_k.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/concepts.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/codec_bodies.hpp>
#include <causeway/cuda/bodies/hash_bodies.hpp>
#include <causeway/cuda/bodies/mean_bodies.hpp>
#include <causeway/cuda/bodies/top_k_read_body.hpp>
#include <causeway/cuda/bodies/update_bodies.hpp>
#include <causeway/cuda/engine.hpp>
#include <causeway/cuda/ops/products.hpp>
#include <causeway/cuda/ops/queue.hpp>
#include <causeway/cuda/ops/sparse.hpp>
#include <causeway/cuda/ops/transfers.hpp>
#include <causeway/cuda/wire_codec.hpp>
#include <causeway/kernels/optimizer.hpp>
#include <causeway/kernels/row_hash.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace cuda {

/// A queue that an engine can be made of: it also waits and lends memory that the host sees.
template <class Q>
concept EngineQueue = ProductQueue<Q> && SortingQueue<Q> && TransferQueue<Q> &&
    requires(Q& q, const Q& constant, void* to, const void* from, std::size_t bytes) {
  { q.enter() } -> std::same_as<result<void>>;  // before each operation: makes the device current
  { q.fetch(from, bytes) } -> std::same_as<result<void>>;
  { q.copy(to, from, bytes) } -> std::same_as<result<void>>;
  { q.wait() } -> std::same_as<result<void>>;
  { q.reserve(bytes) } -> std::same_as<void*>;
  q.release(to);
  { constant.describe() } -> ConvertibleTo<std::string>;
};

/// The part of an engine that computes nothing: the queue, its memory, and the first error, behind which nothing runs until
/// it was told.
template <EngineQueue Q>
class engine_base : public engine {
 public:
  explicit engine_base(Q queue) : queue_{std::move(queue)} {}

  [[nodiscard]] std::string describe() const override { return queue_.describe(); }
  [[nodiscard]] void* reserve(std::size_t bytes) override {
    void* const piece = queue_.reserve(bytes);
    pieces_[address(piece)] = bytes;
    return piece;
  }
  void release(void* piece) noexcept override {
    pieces_.erase(address(piece));
    queue_.release(piece);
  }
  [[nodiscard]] bool holds(const void* p, std::size_t bytes) const noexcept override {
    auto behind = pieces_.upper_bound(address(p));
    if (behind == pieces_.begin()) return false;
    const auto& [begin, size] = *--behind;
    const std::uintptr_t offset = address(p) - begin;
    return offset <= size && bytes <= size - offset;
  }

  void wait() override { note(queue_.wait()); }
  [[nodiscard]] result<void> finish() override {
    wait();
    if (!first_) return {};
    return *std::exchange(first_, std::nullopt);
  }

  void fetch(const void* p, std::size_t bytes) override {
    run([&] { return queue_.fetch(p, bytes); });
  }
  void copy_in(void* to, const void* host, std::size_t bytes) override {
    run([&] { return queue_.copy_in(to, host, bytes); });
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    run([&] { return queue_.copy(to, from, bytes); });
  }

 protected:
  /// Nothing runs behind an error: it would compute with numbers that nobody made.
  template <class F>
  void run(F&& f) {
    if (!first_) note(queue_.enter());
    if (!first_) note(f());
  }
  void note(result<void> done) {
    if (!done && !first_) first_ = std::move(done).error();
  }
  [[nodiscard]] const std::optional<error>& first() const noexcept { return first_; }

  /// The number that `f(place)` leaves there.
  template <class F>
  [[nodiscard]] double number(F&& f) {
    double found = std::numeric_limits<double>::quiet_NaN();
    run([&]() -> result<void> {
      CAUSEWAY_ASSIGN(const auto place, queue_.template take<double>(1));
      CAUSEWAY_TRY(f(place.data()));
      return queue_.copy_out(&found, place.data(), sizeof found);
    });
    return found;
  }

  Q queue_;

 private:
  [[nodiscard]] static std::uintptr_t address(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

  std::map<std::uintptr_t, std::size_t> pieces_;  ///< what is reserved: address, bytes
  std::optional<error> first_;                    ///< what `finish` will tell
};

/// The part that rounds need.
template <EngineQueue Q>
class row_operations : public engine_base<Q> {
  using base = engine_base<Q>;
  using base::first;

 protected:
  using base::queue_, base::run;

 public:
  using base::base;

  void subtract(float* y, const float* a, const float* b, std::int64_t count) override {
    run([&] { return queue_.elements(count, difference_body{y, a, b}); });
  }
  void scale(float* y, float alpha, std::int64_t count) override {
    run([&] { return queue_.elements(count, scale_body{y, alpha}); });
  }
  void blend(float* y, float alpha, const float* x, float beta, std::int64_t count) override {
    run([&] { return queue_.elements(count, blend_body{y, alpha, x, beta}); });
  }
  void compensate(float* y, const float* shared, const float* at_send, std::int64_t count,
                  const kernels::compensation& c) override {
    run([&] { return queue_.elements(count, compensate_body{y, shared, at_send, c}); });
  }
  void gossip_update(float* shared, float* velocity, const float* mean, const float* mean_shared, std::int64_t count,
                     const kernels::gossip_coefficients& c) override {
    run([&] { return queue_.elements(count, gossip_body{shared, velocity, mean, mean_shared, c}); });
  }
  void take_over(float* y, const float* x, const float* counts, std::int64_t count) override {
    run([&] { return queue_.elements(count, take_over_body{y, x, counts}); });
  }
  void sgd_update(float* p, const float* g, float* u, std::int64_t count, const kernels::sgd_coefficients& c) override {
    run([&] {
      return u == nullptr ? queue_.elements(count, sgd_body{p, g, c})
                          : queue_.elements(count, momentum_body<false>{p, g, u, c});
    });
  }
  void nesterov_update(float* p, const float* g, float* u, std::int64_t count,
                       const kernels::sgd_coefficients& c) override {
    run([&] { return queue_.elements(count, momentum_body<true>{p, g, u, c}); });
  }

  [[nodiscard]] std::uint64_t row_hash(const float* x, std::size_t n) override {
    std::vector<std::uint64_t> hashes(kernels::hash_pieces(n));
    run([&]() -> result<void> {
      const std::size_t pieces = hashes.size();
      CAUSEWAY_ASSIGN(const auto lanes, queue_.template take<std::uint64_t>(9 * pieces));
      std::uint64_t* const joined = lanes.data() + 8 * pieces;
      const auto count = static_cast<std::int64_t>(pieces), length = static_cast<std::int64_t>(n);
      CAUSEWAY_TRY(queue_.elements(8 * count, hash_lanes_body{x, length, lanes.data()}));
      CAUSEWAY_TRY(queue_.elements(count, hash_pieces_body{lanes.data(), length, joined}));
      return queue_.copy_out(hashes.data(), joined, pieces * sizeof(std::uint64_t));
    });
    return kernels::hash_of_pieces(hashes);
  }

  [[nodiscard]] result<void> encode(const wire_codec& how, const float* x, std::size_t n, std::byte* host) override {
    run([&] { return std::visit([&](const auto& codec) { return encode_to_host(queue_, codec, {x}, n, host); }, how); });
    return so_far();
  }
  [[nodiscard]] result<void> decode(const wire_codec& how, std::span<const std::byte> host, float* to, std::size_t n,
                                    bool is_added, float weight) override {
    return std::visit([&](const auto& codec) { return decode_as(codec, host, to, n, is_added, weight); }, how);
  }

  [[nodiscard]] result<void> encode_sparse(const wire_message& how, const compress::message_context& ctx, const float* x,
                                           std::size_t n, std::byte* host, float* residual) override {
    run([&] { return sparse_.encode(queue_, how, ctx, x, n, host, residual); });
    return so_far();
  }
  [[nodiscard]] result<void> decode_sparse(const wire_message& how, const compress::message_context& ctx,
                                           std::span<const std::byte> host, float* sum, std::size_t n, float weight,
                                           float* counts) override {
    std::uint32_t found = 0;
    run([&]() -> result<void> {
      CAUSEWAY_ASSIGN(found, sparse_.decode_add(queue_, how, ctx, host, sum, n, weight, counts));
      return {};
    });
    CAUSEWAY_TRY(so_far());
    if ((found & bad_indices) != 0) return compress::detail::bad_indices(compress::top_k::name);
    return std::visit([&](const auto& codec) { return verdict(found, codec.name); }, how.quantiser);
  }
  void invert(const wire_message& how, const compress::message_context& ctx, float* row, std::size_t n) override {
    run([&] { return sparse_.inverse(queue_, how, ctx, row, n); });
  }
  [[nodiscard]] result<void> divide(float* y, const float* counts, float factor, std::int64_t count) override {
    std::uint32_t found = 0;
    run([&]() -> result<void> {
      CAUSEWAY_ASSIGN(const auto word, queue_.template take<std::uint32_t>(1));
      CAUSEWAY_TRY(queue_.elements(1, clear_words_body{word.data()}));
      CAUSEWAY_TRY(queue_.elements(count, divide_body{y, counts, factor, word.data()}));
      return queue_.copy_out(&found, word.data(), sizeof found);
    });
    CAUSEWAY_TRY(so_far());
    return verdict(found, "mean");
  }
  void to_signs(float* y, std::int64_t count) override {
    run([&] { return queue_.elements(count, signs_body{y}); });
  }

 private:
  /// A message that is refused is no error of the engine.
  template <WireCodec Codec>
  result<void> decode_as(const Codec& codec, std::span<const std::byte> host, float* to, std::size_t n, bool is_added,
                         float weight) {
    if (host.size() != codec.encoded_size(n)) {
      return compress::detail::wrong_length(Codec::name, host.size(), codec.encoded_size(n));
    }
    std::uint32_t found = 0;
    run([&]() -> result<void> {
      CAUSEWAY_ASSIGN(found, decode_from_host(queue_, codec, host, to, n, is_added, weight));
      return {};
    });
    CAUSEWAY_TRY(so_far());
    return verdict(found, Codec::name);
  }

  /// The error that `finish` will tell, too.
  [[nodiscard]] result<void> so_far() const {
    if (first()) return *first();
    return {};
  }

  sparse_messages<Q> sparse_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::cuda

#endif  // CAUSEWAY_CUDA_OPS_ROW_OPERATIONS_HPP
