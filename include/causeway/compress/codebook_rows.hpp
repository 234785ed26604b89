// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_COMPRESS_CODEBOOK_ROWS_HPP
#define CAUSEWAY_COMPRESS_CODEBOOK_ROWS_HPP

// Few bits a value, and a codebook of bucket means (bucket_means.hpp) for each row of each hidden matrix: what MuLoCo
// sends. What is no such matrix travels as f32.

#include <causeway/compress/bucket_means.hpp>
#include <causeway/compress/codebook.hpp>
#include <causeway/compress/element.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/packing.hpp>
#include <causeway/core/result.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/targets.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace compress {

/// Message codec: a matrix of parameter_kind::matrix takes (4 · 2^Bits + ceil(Bits · columns / 8)) bytes a row, each
/// encoded as codebook<Bits> encodes its values; vectors, embeddings, the head, and what no matrix covers take 4 bytes a
/// value (the `row_wise_statistical` compressor of MuLoCo's authors, with norms and embeddings not quantised). Two bits and
/// rows of 1,024 values: 2.125 bits a value. Error feedback contracts, as for codebook.
template <unsigned Bits>
class codebook_rows {
 public:
  static constexpr std::string_view name =
      std::string_view{"codebook_rows2codebook_rows3codebook_rows4codebook_rows5codebook_rows6codebook_rows7codebook_rows8"}
          .substr(14 * (Bits - 2), 14);
  static constexpr codec_traits traits{.lossy = true};

  explicit codebook_rows(const codebook_options& options = {}) : options_{options} { CAUSEWAY_EXPECT(validate(options)); }

  [[nodiscard]] const codebook_options& options() const noexcept { return options_; }

  [[nodiscard]] std::size_t most_bytes(const message_context& ctx, std::size_t n) const {
    std::size_t bytes = 0;
    for (const piece& p : pieces(ctx, n)) bytes += p.bytes();
    return bytes;
  }

  std::size_t encode(const message_context& ctx, std::span<const float> values, std::span<std::byte> room) const {
    CAUSEWAY_EXPECT(room.size() >= most_bytes(ctx, values.size()));
    const auto level = kernels::detect_simd_level();
    std::byte* to = room.data();
    for (const piece& p : pieces(ctx, values.size())) {
      const float* const x = values.data() + p.offset;
      if (!p.coded) std::memcpy(to, x, p.bytes());
      for_rows(ctx, p, [&](std::int64_t r) {
        std::byte* const row = to + static_cast<std::size_t>(r) * p.row_bytes();
        kernels::detail::dispatch<detail::encode_buckets<Bits>>(level, x + r * p.width(), row, row + head, p.width(),
                                                                options_.range_in_deviations,
                                                                (static_cast<std::int64_t>(p.rows) - r - 1) * p.width());
      });
      to += p.bytes();
    }
    return static_cast<std::size_t>(to - room.data());
  }

  result<void> decode_add(const message_context& ctx, std::span<const std::byte> bytes, std::span<float> sum, float weight,
                          std::span<float> counts) const {
    CAUSEWAY_EXPECT(counts.empty() || counts.size() == sum.size());
    const std::vector<piece> all = pieces(ctx, sum.size());
    CAUSEWAY_TRY(check(all, bytes));
    const auto level = kernels::detect_simd_level();
    const detail::add_weighted add{weight};
    const std::byte* from = bytes.data();
    for (const piece& p : all) {
      float* const to = sum.data() + p.offset;
      if (!p.coded) {
        kernels::detail::dispatch<detail::add_elements>(level, reinterpret_cast<const float*>(from), to, p.count(), add);
      }
      for_rows(ctx, p, [&](std::int64_t r) {
        const std::byte* const row = from + static_cast<std::size_t>(r) * p.row_bytes();
        kernels::detail::dispatch<detail::decode_buckets<Bits, detail::add_weighted>>(level, row, row + head,
                                                                                      to + r * p.width(), p.width(), add);
      });
      from += p.bytes();
    }
    detail::add_to_counts(ctx.pool, counts, weight);
    return {};
  }

 private:
  static constexpr std::size_t head = detail::codebook_of<Bits>::bytes;

  /// Rows that are coded, or values as they are.
  struct piece {
    std::size_t offset = 0;
    std::size_t rows = 1;
    std::size_t columns = 0;
    bool coded = false;

    [[nodiscard]] std::size_t row_bytes() const noexcept { return head + detail::packed_size(columns, Bits); }
    [[nodiscard]] std::size_t bytes() const noexcept { return coded ? rows * row_bytes() : rows * columns * sizeof(float); }
    [[nodiscard]] std::int64_t width() const noexcept { return static_cast<std::int64_t>(columns); }
    [[nodiscard]] std::int64_t count() const noexcept { return static_cast<std::int64_t>(rows * columns); }
  };

  /// The row of n values in order.
  static std::vector<piece> pieces(const message_context& ctx, std::size_t n) {
    std::vector<piece> all;
    std::size_t at = 0;
    for (const matrix_range& m : ctx.matrices) {
      CAUSEWAY_EXPECT(m.offset >= at && m.offset <= n && m.rows * m.columns <= n - m.offset);
      if (m.offset > at) all.push_back({at, 1, m.offset - at, false});
      if (m.rows * m.columns > 0) all.push_back({m.offset, m.rows, m.columns, m.kind == parameter_kind::matrix});
      at = m.offset + m.rows * m.columns;
    }
    if (n > at) all.push_back({at, 1, n - at, false});
    return all;
  }

  static void for_rows(const message_context& ctx, const piece& p, auto&& f) {
    if (!p.coded) return;
    kernels::detail::for_rows(ctx.pool, static_cast<std::int64_t>(p.rows), p.width(), [&](index_range part) {
      for (std::int64_t r = part.begin; r < part.end; ++r) f(r);
    });
  }

  /// A pass over the bytes alone, so that nothing is added of bad ones.
  static result<void> check(const std::vector<piece>& all, std::span<const std::byte> bytes) {
    std::size_t expected = 0;
    for (const piece& p : all) expected += p.bytes();
    if (bytes.size() != expected) return detail::wrong_length(name, bytes.size(), expected);
    for (const piece& p : all) {
      const auto own = bytes.first(p.bytes());
      bytes = bytes.subspan(own.size());
      if (!p.coded) {
        const auto* const values = reinterpret_cast<const float*>(own.data());
        if (!kernels::detail::dispatch<kernels::detail::finite_kernel>(kernels::detect_simd_level(), values, p.count())) {
          return detail::not_finite(name);
        }
      }
      for (std::size_t r = 0; p.coded && r < p.rows; ++r) {
        CAUSEWAY_TRY(detail::check_codebook<Bits>(own.subspan(r * p.row_bytes(), p.row_bytes()), p.columns, name));
      }
    }
    return {};
  }

  codebook_options options_;
};
static_assert(MessageCodec<codebook_rows<2>>);

}}}  // namespace causeway::CAUSEWAY_ABI::compress

#endif  // CAUSEWAY_COMPRESS_CODEBOOK_ROWS_HPP
