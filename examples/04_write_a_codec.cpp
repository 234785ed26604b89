// SPDX-License-Identifier: Apache-2.0
// ctest: 60
// A codec of one's own: of each value the upper 16 of its 32 bits. Four peers exchange with it, and send half as much.
// usage: 04_write_a_codec [STEPS]
#include <causeway/comm/periodic.hpp>
#include <causeway/compress/codec.hpp>
#include <causeway/compress/none.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "several_peers.hpp"

// [codec]
struct upper_half {
  static constexpr std::string_view name = "acme.upper_half";
  static constexpr causeway::compress::codec_traits traits{.lossy = true};
  static constexpr bool raw = false;

  std::size_t block() const { return 1; }
  std::size_t encoded_size(std::size_t n) const { return 2 * n; }

  std::size_t encode(causeway::thread_pool&, std::span<const float> values, std::span<std::byte> room) const {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(values[i]) >> 16U);
      std::memcpy(&room[2 * i], &upper, 2);
    }
    return encoded_size(values.size());
  }

  // What arrives may have been sent by anybody.
  causeway::result<void> decode(causeway::thread_pool&, std::span<const std::byte> bytes, std::span<float> values) const {
    using causeway::errc;
    if (bytes.size() != encoded_size(values.size())) return causeway::fail(errc::protocol, "upper_half", "a wrong length");
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t upper = 0;
      std::memcpy(&upper, &bytes[2 * i], 2);
      values[i] = std::bit_cast<float>(std::uint32_t{upper} << 16U);
      if (!std::isfinite(values[i])) return causeway::fail(errc::non_finite, "upper_half", "a value is NaN or infinite");
    }
    return {};
  }
};
// [codec]
static_assert(causeway::compress::Codec<upper_half>);

template <class Codec>
auto diloco_with() {
  return causeway::comm::periodic<causeway::optim::nesterov, Codec>{{.local_steps = 10}};
}

causeway::result<bool> compare(int steps) {
  CAUSEWAY_ASSIGN(const ending whole, train_four("f32", diloco_with<causeway::compress::none>, steps));
  CAUSEWAY_ASSIGN(const ending half, train_four("our codec", diloco_with<upper_half>, steps));
  return half.bytes < whole.bytes * 6 / 10 && std::abs(half.loss - whole.loss) < 0.1;
}

int main(int argc, char** argv) { return status_of(compare(argc > 1 ? std::atoi(argv[1]) : 200)); }
