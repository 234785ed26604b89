// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_SERVING_BLOCK_RPC_CODEC_HPP
#define CAUSEWAY_PARALLEL_SERVING_BLOCK_RPC_CODEC_HPP

// The bytes of rows, gradients and what is tuned between clients and the servers of frozen blocks. Rows go through a codec
// that remembers nothing, so that what a server answered goes on to the next one as it is, and again to another if that one
// is lost. Prompts, adapters and their gradients are f32.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/nn/adapters.hpp>
#include <causeway/parallel/serving/block_messages.hpp>
#include <causeway/parallel/tensor_mailbox.hpp>
#include <causeway/stage/activation.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// What messages carry: equal on peers that understand each other.
template <stage::ActivationCodec Codec>
[[nodiscard]] std::uint64_t span_run(std::uint64_t run, std::uint64_t model, const Codec& codec) {
  return hasher{}.add_value(run).add_value(model).add_value(codec.agreement()).finish();
}

/// What a request says.
struct span_question {
  std::vector<float> x, dy, tuned;
};

/// One side's. One thread.
template <stage::ActivationCodec Codec>
class block_rpc_codec {
 public:
  static_assert(
      !Codec::traits.stateful && !Codec::traits.needs_samples && !Codec::traits.uses_base,
      "causeway-P6: servers of frozen blocks remember nothing of their clients, nor what a codec with a memory or a "
      "shared base would; use stage::plain or another stage::coded. docs/reference/rules.md#p6");

  /// `maps`: of a block of the model.
  block_rpc_codec(Codec codec, std::int64_t width, const nn::map_sizes& maps)
      : codec_{std::move(codec)}, width_{width}, maps_{maps} {}

  /// Bytes that rows take, divided by their number, at most.
  static std::size_t most_bytes_a_row(const Codec& codec, std::int64_t width) {
    return codec.most_bytes({.rows = 1, .width = width, .sequences = 1});
  }

  [[nodiscard]] std::size_t request_bytes(const block_wire::request& r) const {
    const std::size_t dy = r.backward != 0 ? codec_.most_bytes(crossing(r, stage::direction::backward)) : 0;
    return r.x_bytes + dy + sizeof(float) * tuned_values(r);
  }
  [[nodiscard]] std::size_t answer_bytes(const block_wire::request& r) const {
    if (r.backward == 0) return codec_.most_bytes(crossing(r, stage::direction::forward));
    return codec_.most_bytes(crossing(r, stage::direction::backward)) + sizeof(float) * tuned_values(r);
  }
  /// Of what is tuned of the request's blocks. Precondition: its adapters fit the maps.
  [[nodiscard]] std::size_t tuned_values(const block_wire::request& r) const {
    return static_cast<std::size_t>(r.blocks.size() * r.tuning().values(width_, maps_));
  }

  result<std::vector<std::byte>> encode_rows(thread_pool& pool, const block_wire::request& r, stage::direction way,
                                             std::span<const float> values) {
    std::vector<std::byte> bytes(codec_.most_bytes(crossing(r, way)));
    CAUSEWAY_ASSIGN(const std::size_t used, codec_.encode(pool, crossing(r, way), values, bytes));
    bytes.resize(used);
    return bytes;
  }
  /// errc::non_finite too.
  result<std::vector<float>> decode_rows(thread_pool& pool, const block_wire::request& r, stage::direction way,
                                         std::span<const std::byte> bytes) {
    std::vector<float> values(crossing(r, way).count());
    CAUSEWAY_TRY(codec_.decode(pool, crossing(r, way), bytes, values));
    if (!stage::all_finite(pool, values)) return fail(errc::non_finite, "rows", "values that are not finite were sent");
    return values;
  }

  [[nodiscard]] static std::vector<std::byte> request_data(std::span<const std::byte> x, std::span<const std::byte> dy,
                                                           std::span<const float> tuned) {
    std::vector<std::byte> all(x.begin(), x.end());
    all.insert(all.end(), dy.begin(), dy.end());
    put(all, tuned);
    return all;
  }

  /// Errors where no client that keeps the rules sends this.
  result<span_question> read_request(thread_pool& pool, const block_wire::request& r, std::span<const std::byte> bytes) {
    CAUSEWAY_ASSIGN(const std::size_t rows, without_tuned(r, bytes));
    if (r.x_bytes > rows || (r.backward == 0 && r.x_bytes != rows)) return wrong_length();
    span_question q;
    CAUSEWAY_ASSIGN(q.x, decode_rows(pool, r, stage::direction::forward, bytes.first(r.x_bytes)));
    if (r.backward != 0) {
      CAUSEWAY_ASSIGN(q.dy, decode_rows(pool, r, stage::direction::backward, bytes.subspan(r.x_bytes, rows - r.x_bytes)));
    }
    CAUSEWAY_ASSIGN(q.tuned, get(pool, bytes.subspan(rows)));
    return q;
  }

  result<shared_bytes> write_answer(thread_pool& pool, const block_wire::request& r, std::span<const float> rows,
                                    std::span<const float> d_tuned) {
    CAUSEWAY_ASSIGN(std::vector<std::byte> bytes, encode_rows(pool, r, way_back(r), rows));
    put(bytes, d_tuned);
    return shared_bytes{std::make_shared<const std::vector<std::byte>>(std::move(bytes))};
  }

  /// The answer's rows as they came, which decode and are finite, and the gradients of what is tuned.
  struct answer {
    shared_bytes rows;
    std::vector<float> values;
    std::vector<float> d_tuned;
  };
  /// Errors where no server that keeps the rules sends this.
  result<answer> read_answer(thread_pool& pool, const block_wire::request& r, const shared_bytes& bytes) {
    std::size_t rows = bytes->size();
    if (r.backward != 0) {
      CAUSEWAY_ASSIGN(rows, without_tuned(r, *bytes));
    }
    const std::span<const std::byte> all{*bytes};
    answer a;
    CAUSEWAY_ASSIGN(a.values, decode_rows(pool, r, way_back(r), all.first(rows)));
    CAUSEWAY_ASSIGN(a.d_tuned, get(pool, all.subspan(rows)));
    a.rows = rows == all.size() ? bytes
                                : std::make_shared<const std::vector<std::byte>>(
                                      all.begin(), all.begin() + static_cast<std::ptrdiff_t>(rows));
    return a;
  }

 private:
  static stage::direction way_back(const block_wire::request& r) {
    return r.backward != 0 ? stage::direction::backward : stage::direction::forward;
  }
  /// Equal for what one server makes and the next one reads: no edge, no number.
  [[nodiscard]] stage::crossing crossing(const block_wire::request& r, stage::direction way) const {
    return {.way = way, .rows = r.rows(), .width = width_, .sequences = r.sequences};
  }

  static error wrong_length() { return fail(errc::protocol, "rows", "another length than their number says"); }
  result<std::size_t> without_tuned(const block_wire::request& r, std::span<const std::byte> bytes) const {
    const std::size_t tuned = sizeof(float) * tuned_values(r);
    if (bytes.size() < tuned) return wrong_length();
    return bytes.size() - tuned;
  }

  static void put(std::vector<std::byte>& out, std::span<const float> values) {
    const std::size_t at = out.size();
    out.resize(at + values.size() * sizeof(float));
    std::byte* to = out.data() + at;
    for (const float v : values) to = net::detail::store_little(to, std::bit_cast<std::uint32_t>(v));
  }
  static result<std::vector<float>> get(thread_pool& pool, std::span<const std::byte> bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = std::bit_cast<float>(net::detail::load_little<std::uint32_t>(bytes.data() + i * sizeof(float)));
    }
    if (bytes.size() % sizeof(float) != 0) return wrong_length();
    if (!stage::all_finite(pool, values))
      return fail(errc::non_finite, "prompts or adapters", "values that are not finite were sent");
    return values;
  }

  Codec codec_;
  std::int64_t width_;
  nn::map_sizes maps_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_SERVING_BLOCK_RPC_CODEC_HPP
