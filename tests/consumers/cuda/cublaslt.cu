// SPDX-License-Identifier: Apache-2.0
// The products of a model on the device; an error that says what is missing where there is none.
#include <causeway/cuda/device/matmul.cuh>

#include <cstdio>

int main() {
  const auto products = causeway::cuda::matmul::create();
  if (products) return 0;
  std::printf("%s\n", products.error().text().c_str());
  return products.error().code == causeway::errc::unsupported ? 0 : 1;
}
