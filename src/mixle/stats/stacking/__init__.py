"""The component axis: K models of one shape scored and accumulated as matrix products over blocks of rows."""
