// SPDX-License-Identifier: Apache-2.0
// Codecs: encoding with error feedback, checking, decoding, adding. Bytes are values, errors and codes, each read or
// written once.
#include <causeway/compress/top_k.hpp>
#include <causeway/cuda/device/queue.cuh>
#include <causeway/cuda/ops/codecs.hpp>
#include <causeway/cuda/ops/dct.hpp>
#include <causeway/cuda/ops/mask.hpp>
#include <causeway/cuda/ops/top_k.hpp>

#include "cuda/meter.cuh"

namespace bench {
namespace {

namespace compress = causeway::compress;

struct rows_of_values {
  std::int64_t n;
  cuda::device_buffer<float> x, error;
  cuda::device_buffer<std::byte> bytes;
  cuda::device_buffer<std::uint32_t> found;
};

template <class Codec>
result<void> codec(meter& m, rows_of_values& r, const std::string& name, const Codec& how) {
  const auto n = static_cast<std::size_t>(r.n);
  cuda::device_queue queue{m.stream(), m.memory()};
  const std::span<std::byte> room{r.bytes.data(), how.encoded_size(n)};
  const auto values = static_cast<double>(n), codes = static_cast<double>(room.size());
  const std::string size = std::to_string(n) + " f32";
  const cuda::codec_source source{r.x.data(), r.error.data(), 1.0F, 0.0F};  // the error does not grow from call to call
  CAUSEWAY_TRY(m.measure(name + ", encode with error", size, bound::copy, 12 * values + codes,
                         [&] { return cuda::encode(queue, how, source, n, room, r.found.data()); }));
  CAUSEWAY_TRY(m.measure(name + ", check", size, bound::copy, codes,
                         [&] { return cuda::check_bytes(queue, how, room, n, r.found.data()); }));
  CAUSEWAY_TRY(m.measure(name + ", decode", size, bound::copy, 4 * values + codes,
                         [&] { return cuda::decode(queue, how, room, r.error.data(), n); }));
  return m.measure(name + ", decode and add", size, bound::copy, 8 * values + codes, [&] {
    return cuda::decode(queue, how, room, r.error.data(), n, {true, 0.0F});
  });
}

result<void> sparse(meter& m, rows_of_values& r) {
  causeway::thread_pool pool{1};
  const auto n = static_cast<std::size_t>(r.n);
  const compress::matrix_range matrices[] = {{0, n / 4096, 4096}};
  const compress::message_context ctx{.pool = pool, .matrices = matrices};
  const compress::top_k choice{{}};
  cuda::device_queue queue{m.stream(), m.memory()};
  CAUSEWAY_ASSIGN(auto kept, cuda::device_buffer<std::uint32_t>::create(choice.most_kept(ctx, n)));
  const auto bytes = static_cast<double>(choice.most_bytes(ctx, n)), places = static_cast<double>(kept.size());
  auto* const words = reinterpret_cast<std::uint32_t*>(r.bytes.data());
  CAUSEWAY_TRY(m.measure("top-k, select", std::to_string(n) + " f32", bound::copy,
                         4.0 * (static_cast<double>(n) + places) + bytes,
                         [&] { return cuda::select(queue, choice, ctx, r.x.data(), n, kept.data(), words); }));
  CAUSEWAY_TRY(m.measure("top-k, read", std::to_string(n) + " f32", bound::copy, 4.0 * places + bytes,
                         [&] { return cuda::read_indices(queue, choice, ctx, words, n, kept.data(), r.found.data()); }));

  cuda::dct<cuda::device_queue> transform;
  const compress::dct_tiles tiles;
  const std::string size = std::to_string(n) + " f32, tiles of 64 x 64";
  CAUSEWAY_TRY(m.measure("DCT", size, bound::copy, 8.0 * static_cast<double>(n),
                         [&] { return transform.forward(queue, tiles, matrices, r.x.data(), r.error.data(), n); }));
  CAUSEWAY_TRY(m.measure("DCT, inverse", size, bound::copy, 8.0 * static_cast<double>(n),
                         [&] { return transform.inverse(queue, tiles, matrices, r.error.data(), n); }));

  const compress::permuted_part part{.seed = 1, .begin = 0, .end = n / 64};
  CAUSEWAY_ASSIGN(auto listed, cuda::device_buffer<std::uint32_t>::create(n / 64));
  return m.measure("random mask, list 1 of 64", std::to_string(n) + " places", bound::copy,
                   static_cast<double>(n) / 8 * 3 + 4.0 * static_cast<double>(n / 64),
                   [&] { return cuda::list_permuted(queue, n, part, listed.data()); });
}

}  // namespace

result<void> measure_codecs(meter& m) {
  const std::int64_t n = m.sized(std::int64_t{1} << 27U);
  CAUSEWAY_ASSIGN(auto x, m.random<float>(n));
  CAUSEWAY_ASSIGN(auto error, m.random<float>(n));
  CAUSEWAY_ASSIGN(auto bytes, cuda::device_buffer<std::byte>::create(static_cast<std::size_t>(n) * 4));
  CAUSEWAY_ASSIGN(auto found, cuda::device_buffer<std::uint32_t>::create(1));
  rows_of_values rows{n, std::move(x), std::move(error), std::move(bytes), std::move(found)};
  CAUSEWAY_TRY(codec(m, rows, "bf16", compress::bf16{}));
  CAUSEWAY_TRY(codec(m, rows, "block_int8", compress::block_int8{}));
  CAUSEWAY_TRY(codec(m, rows, "e3m0", compress::e3m0{}));
  CAUSEWAY_TRY(codec(m, rows, "bits4", compress::bits<4>{}));
  CAUSEWAY_TRY(codec(m, rows, "bits2", compress::bits<2>{}));
  CAUSEWAY_TRY(codec(m, rows, "bits1", compress::bits<1>{}));
  return sparse(m, rows);
}

}  // namespace bench
