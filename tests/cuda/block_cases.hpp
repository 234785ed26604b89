// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_BLOCK_CASES_HPP
#define CAUSEWAY_TESTS_CUDA_BLOCK_CASES_HPP

// The bodies of the codecs with blocks, run here as their kernels run on a device.

#include <causeway/cuda/bodies/codec_bodies.hpp>

#include "cuda/body_support.hpp"
#include "cuda/thread_group.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway_test {

template <class Code>
std::size_t scale_bytes_of(const Code& code, std::size_t n) {
  const auto block = static_cast<std::size_t>(code.block);
  return (n + block - 1) / block * static_cast<std::size_t>(code.scale_bytes());
}

template <class Code>
std::vector<std::byte> encode_here(const causeway::cuda::codec_source& from, std::size_t n, const Code& code, int threads,
                                   std::uint32_t* found = nullptr) {
  const std::size_t scales = scale_bytes_of(code, n);
  std::vector<std::byte> bytes(scales + (n * Code::bits + 7) / 8, std::byte{0xA5});
  const causeway::cuda::block_encode_body<Code> body{
      from, bytes.data(), bytes.data() + scales, static_cast<std::int64_t>(n), code, found};
  with_group(threads, [&](auto& g) {
    for (std::int64_t block = 0; block * code.block < body.n; ++block) {
      if (body.aligned()) {
        body.template run<causeway::cuda::pack_width>(g, block);
      } else {
        body.template run<1>(g, block);
      }
    }
  });
  return bytes;
}

template <class Code>
std::uint32_t check_here(std::span<const std::byte> bytes, std::size_t n, const Code& code) {
  std::uint32_t found = 0;
  const causeway::cuda::block_check_body<Code> body{bytes.data(), bytes.data() + scale_bytes_of(code, n),
                                                    static_cast<std::int64_t>(n), code, &found};
  for (std::int64_t octet = 0; octet * 8 < body.n; ++octet) body(octet);
  return found;
}

template <class Code>
void decode_here(std::span<const std::byte> bytes, std::vector<float>& to, const Code& code, bool adds, float weight) {
  const auto n = static_cast<std::int64_t>(to.size());
  const causeway::cuda::block_decode_body<Code> body{
      bytes.data(), bytes.data() + scale_bytes_of(code, to.size()), to.data(), n, code, adds, weight};
  for (std::int64_t octet = 0; octet * 8 < n; ++octet) body(octet);
}

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_BLOCK_CASES_HPP
