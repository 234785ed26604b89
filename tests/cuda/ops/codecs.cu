// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/device/memory.cuh>
#include <causeway/cuda/device/queue.cuh>
#include <causeway/cuda/device/runtime.cuh>
#include <causeway/cuda/ops/codecs.hpp>

#include "cuda/codec_case.hpp"

namespace causeway_test {
namespace {

namespace cuda = causeway::cuda;
namespace compress = causeway::compress;

constexpr std::size_t n = codec_case::n;

template <class Codec>
causeway::result<codec_result> on_device(const Codec& codec) {
  CAUSEWAY_ASSIGN(auto s, cuda::stream::create());
  cuda::arena memory{0};
  cuda::device_queue queue{s, memory};
  codec_result out;
  out.bytes.resize(codec.encoded_size(n));
  std::vector<float> x = numbers(n, 1);
  std::vector<std::uint32_t> found(1);
  CAUSEWAY_ASSIGN(auto device_x, cuda::device_buffer<float>::create(n));
  CAUSEWAY_ASSIGN(auto error, cuda::device_buffer<float>::create(n));
  CAUSEWAY_ASSIGN(auto sum, cuda::device_buffer<float>::create(n));
  CAUSEWAY_ASSIGN(auto bytes, cuda::device_buffer<std::byte>::create(out.bytes.size()));
  CAUSEWAY_ASSIGN(auto device_found, cuda::device_buffer<std::uint32_t>::create(1));
  CAUSEWAY_TRY(device_x.write(s, x));
  CAUSEWAY_TRY(error.write(s, out.error));
  CAUSEWAY_TRY(sum.write(s, out.sum));
  CAUSEWAY_TRY(device_found.write(s, found));
  const std::span<std::byte> room{bytes.data(), bytes.size()};
  CAUSEWAY_TRY(cuda::encode(queue, codec, {device_x.data(), error.data(), codec_case::gain, codec_case::decay}, n, room,
                            device_found.data()));
  CAUSEWAY_TRY(cuda::check_bytes(queue, codec, room, n, device_found.data()));
  CAUSEWAY_TRY(cuda::decode(queue, codec, room, sum.data(), n, {true, codec_case::weight, device_found.data()}));
  CAUSEWAY_TRY(error.read(s, out.error));
  CAUSEWAY_TRY(sum.read(s, out.sum));
  CAUSEWAY_TRY(bytes.read(s, out.bytes));
  CAUSEWAY_TRY(device_found.read(s, found));
  CAUSEWAY_TRY(s.synchronize());
  CAUSEWAY_TRY(cuda::verdict(found[0], Codec::name));
  return out;
}

}  // namespace

causeway::result<std::vector<codec_result>> codecs_on_device() {
  std::vector<codec_result> list;
  const auto add = [&](const auto& codec) -> causeway::result<void> {
    CAUSEWAY_ASSIGN(auto made, on_device(codec));
    list.push_back(std::move(made));
    return {};
  };
  CAUSEWAY_TRY(add(compress::bf16{}));
  CAUSEWAY_TRY(add(compress::fp16{}));
  CAUSEWAY_TRY(add(compress::block_int8{}));
  CAUSEWAY_TRY(add(compress::e3m0{}));
  CAUSEWAY_TRY(add(compress::bits<1>{}));
  CAUSEWAY_TRY(add(compress::bits<2>{codec_case::by_mean}));
  CAUSEWAY_TRY(add(compress::bits<4>{codec_case::stochastic}));
  return list;
}

bool codecs_of_cpu_work() {
  causeway::thread_pool pool{1};
  const auto works = [&](const auto& codec) {
    const std::vector<float> x{1.0F, -1.0F, 0.5F};
    std::vector<float> y(3), sum(3);
    std::vector<std::byte> bytes(codec.encoded_size(3));
    codec.encode(pool, x, bytes);
    return codec.decode(pool, bytes, y) && codec.decode_add(pool, bytes, sum, 1.0F) && y == sum && y[1] == -y[0];
  };
  return works(compress::block_int8{}) && works(compress::bits<4>{}) && works(compress::e3m0{});
}

}  // namespace causeway_test
